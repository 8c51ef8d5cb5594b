"""The pieces of the report page, one file a section: values in, safe markup out. None of it needs torch."""
