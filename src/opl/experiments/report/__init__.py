"""The sections of the report page, one file each: values in, escaped markup out. Needs no torch."""
