"""The flow of OPL, not in the paper: which way it moves s and d for some gammas, and the paths of runs of table 8."""

from dataclasses import replace
from typing import TYPE_CHECKING

from ..item import Row
from . import table_8

if TYPE_CHECKING:
    from ..recipe import Recipe

GAMMAS = (0.5, 1.0, 2.0)
ITEM = replace(
    table_8.ITEM,
    name="figure-flow",
    title="CIFAR-100, s and d during training in the flow of OPL (not in the paper)",
    metrics={"val/top1": "validation top-1 %", "test/s": "s", "test/d": "d"},
    rows=(
        Row("CE", table_8.CE, {}),
        *(
            Row(f"CE+OPL, gamma {gamma:g}", table_8.name_of(table_8.CHOSEN[0], gamma), {}, baseline=table_8.CE)
            for gamma in GAMMAS
        ),
    ),
    compared=("val/top1",),
    note="",
    setting="",
    figure="flow",
    home=table_8.ITEM.name,
)


def recipes() -> tuple["Recipe", ...]:
    """The recipes of the rows, and all of table 8."""
    return table_8.recipes()
