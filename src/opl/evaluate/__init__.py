"""Protocols, one file each: `(model, data, settings) -> numbers`."""
