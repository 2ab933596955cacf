"""The report as a page with charts: what a reader needs, in one file."""
