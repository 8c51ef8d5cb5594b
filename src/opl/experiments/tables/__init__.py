"""Every table and figure of the paper as a value: its rows, the paper's numbers, what is shown. No torch in here.

The recipes that the rows name are in `opl.experiments.recipes`, under the same file names.
"""

from ...errors import OptionError, did_you_mean
from ..item import NEEDS, Average, Item, Measure, Row
from . import (
    demo,
    figure_2,
    figure_6,
    figure_s1,
    figures_of_table_1,
    table_1,
    table_3,
    table_4,
    table_5,
    table_6,
    table_8,
    table_s1,
    table_s3,
)

_ALL = (
    demo.ITEM, table_1.ITEM, table_3.ITEM, table_3.MORE, table_4.ITEM, table_5.ITEM, table_6.ITEM, table_8.ITEM,
    table_s1.ITEM, table_s3.ITEM,
    figure_2.ITEM, figure_6.ITEM, *figures_of_table_1.ITEMS, figure_s1.ITEM,
)  # fmt: skip
ITEMS: dict[str, Item] = {item.name: item for item in _ALL}


def item(name: str) -> Item:
    """The table or figure of that name; otherwise the nearest names."""
    if name not in ITEMS:
        raise OptionError(did_you_mean("table or figure", name, ITEMS))
    return ITEMS[name]


def cost_of(recipe: str) -> str:
    """What a run of a recipe costs, as its table says."""
    return next((item.cost for item in _ALL if any(row.recipe == recipe for row in item.rows)), "")


__all__ = ["ITEMS", "NEEDS", "Average", "Item", "Measure", "Row", "cost_of", "item"]
