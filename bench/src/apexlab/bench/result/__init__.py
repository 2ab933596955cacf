"""From the rows of a run to what they say. Pure: nothing here reads a clock or runs a process."""
