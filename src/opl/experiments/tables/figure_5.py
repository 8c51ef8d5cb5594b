"""Figure 5: pictures that OPL gets right and CE wrong, from the runs of table 1. Their cost is in RESULTS.md."""

from .table_1 import figure, recipes

ITEM = figure("figure-5", "CIFAR-100 (ImageNet in the paper), pictures that OPL gets right and CE wrong", "gallery")

__all__ = ["ITEM", "recipes"]
