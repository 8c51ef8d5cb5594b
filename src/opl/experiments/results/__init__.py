"""Finished runs as values: the one scan of the disk, comparisons, tables. No torch in here."""
