"""Evaluation of finished runs, one protocol per file: `(model, data, settings) -> numbers`. Does not import torch."""
