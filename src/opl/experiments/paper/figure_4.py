"""Figure 4: similarity of the classes' mean features, from the runs of table 1. Their cost is in RESULTS.md."""

from .table_1 import figure, recipes

ITEM = figure("figure-4", "CIFAR-100, similarity of the classes' average features", "similarity")

__all__ = ["ITEM", "recipes"]
