"""Figure 5: pictures that OPL fixes and pictures that it breaks, from runs of table 2. Their cost is in RESULTS.md.

The paper does not say which network it shows; this is ResNet-50.
"""

from .table_2 import CIFAR, RESNET50, figure, recipes

ITEM = figure("figure-5", "ImageNet, pictures that OPL fixes and pictures that it breaks", RESNET50, CIFAR)

__all__ = ["ITEM", "recipes"]
