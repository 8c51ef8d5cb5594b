"""The flow of OPL, not in the paper: which way it moves s and d for some gammas, and the paths of runs of table 8."""

from dataclasses import replace
from typing import TYPE_CHECKING

from ..item import Row
from . import table_1, table_8

if TYPE_CHECKING:
    from ..recipe import Recipe

GAMMAS = (0.5, 1.0, 2.0)
CE = table_1.PAIR[0]
ITEM = replace(
    table_1.figure("figure-flow", "CIFAR-100, s and d during training in the flow of OPL (not in the paper)", "flow"),
    rows=(
        CE,
        *(Row(f"CE+OPL, gamma {gamma:g}", table_8.name_of(1.0, gamma), {}, baseline=CE.recipe) for gamma in GAMMAS),
    ),
    setting="",
)


def recipes() -> tuple["Recipe", ...]:
    """The recipes of the rows, with all of tables 1 and 8."""
    return (*table_1.recipes(), *table_8.recipes())
