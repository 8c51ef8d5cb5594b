"""Runs as values: the only scan of the disk, comparisons and tables. Needs no torch."""
