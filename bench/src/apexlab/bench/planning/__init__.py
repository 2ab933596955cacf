"""What is to be measured: scenarios, presets, rounds. Read before anything runs."""
