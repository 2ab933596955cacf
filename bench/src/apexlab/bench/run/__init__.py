"""The parent's side of a run: one process after another, watched, and kept row by row."""
