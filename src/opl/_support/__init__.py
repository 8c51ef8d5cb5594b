"""Helpers shared by losses and heads: argument checks, reductions, step-dependent settings, torchmetrics support."""
