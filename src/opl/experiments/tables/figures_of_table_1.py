"""Figures 3, 4, 5 and s3: all are drawn from the runs of CE and CE+OPL in table 1, whose cost is RESULTS.md's."""

from dataclasses import replace

from ..item import Item
from .table_1 import ITEM as TABLE_1

TITLES = {
    "figure-3": ("training", "CIFAR-100, orthogonality, s and d during training"),
    "figure-4": ("similarity", "CIFAR-100, similarity of the classes' average features"),
    "figure-5": ("gallery", "CIFAR-100 (ImageNet in the paper), pictures that OPL gets right and CE wrong"),
    "figure-s3": ("neighbors", "CIFAR-100, each class's nearest and farthest classes"),
}


def _item(name: str, figure: str, title: str) -> Item:
    rows = TABLE_1.rows[:2]
    return replace(TABLE_1, name=name, title=title, rows=rows, figure=figure, home=TABLE_1.name, note="")


ITEMS = tuple(_item(name, figure, title) for name, (figure, title) in TITLES.items())
