"""The report page: its templates, style and script, and the order of its parts. Charts come from `charts`; no torch."""
