"""Judges an installed Apex, or a wheel of it: what is there, what fits, what loads, what ran."""
