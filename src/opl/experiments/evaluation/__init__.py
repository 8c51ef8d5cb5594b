"""Measures of finished runs, one file a protocol: `(model, data, settings) -> numbers`. No torch in here."""
