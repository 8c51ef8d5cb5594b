"""Figure s2: more pictures like those of figure 5, of ResNet-18 in table 2 (and of PACS at the small scale)."""

from .table_2 import PACS, RESNET18, figure, recipes

ITEM = figure("figure-s2", "ImageNet, more pictures that OPL fixes and pictures that it breaks", RESNET18, PACS)

__all__ = ["ITEM", "recipes"]
