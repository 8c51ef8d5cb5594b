"""Figure s3: each class's nearest and farthest classes, from the runs of table 1. Their cost is in RESULTS.md."""

from .table_1 import figure, recipes

ITEM = figure("figure-s3", "CIFAR-100, each class's nearest and farthest classes", "neighbors")

__all__ = ["ITEM", "recipes"]
