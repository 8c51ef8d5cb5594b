"""Figure 3: orthogonality, s and d during training, from the runs of table 1. Their cost is in RESULTS.md."""

from .table_1 import figure, recipes

ITEM = figure("figure-3", "CIFAR-100, orthogonality, s and d during training", "curves")

__all__ = ["ITEM", "recipes"]
