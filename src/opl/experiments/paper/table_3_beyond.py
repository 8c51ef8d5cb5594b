"""Table 3 beyond the paper: both weights of OPL, pruned samples in its pairs or not. Cost and figures: RESULTS.md.

Recipes and runs are shared with table 3; the small scale has MNIST only, because its runs are short.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

from ..item import Row
from . import table_3

if TYPE_CHECKING:
    from ..recipe import Recipe

KEYS = ("tl", "tl-opl", "tl-opl-code", "tl-opl-left-out", "tl-opl-code-left-out")


def row(dataset: str, noise: str, key: str) -> Row:
    """The row of a variant, at the small scale for MNIST alone and without the paper's number."""
    known = table_3.row(dataset, noise, key)
    return replace(known, paper={}, scales=tuple(s for s in known.scales if s != "small" or dataset == table_3.MNIST))


ITEM = replace(
    table_3.ITEM,
    name="table-3-beyond",
    title="Label noise, 40 %: OPL's weight, and pruned samples in its pairs or not (not in the paper)",
    rows=tuple(row(dataset, noise, key) for dataset in table_3.BENCHMARKS for noise in table_3.NOISES for key in KEYS),
    note="",
    setting="",
    home=table_3.ITEM.name,
)


def recipes() -> tuple["Recipe", ...]:
    """The recipes of the rows."""
    return table_3.recipes_of(lambda dataset: KEYS)
