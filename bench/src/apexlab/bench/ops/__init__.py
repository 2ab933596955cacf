"""Single operations, timed one by one: Adam, the norms, unscaling and clipping."""
