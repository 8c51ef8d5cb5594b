"""Figure s4: further pictures like those of figures 5 and s2, of the vision transformers in table 2."""

from .table_2 import SMALL_VIT, VIT, figure, recipes

ITEM = figure("figure-s4", "ImageNet, further pictures that OPL fixes and pictures that it breaks", VIT, SMALL_VIT)

__all__ = ["ITEM", "recipes"]
