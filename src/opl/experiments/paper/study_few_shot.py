"""The study where the paper's OPL lost, not in the paper: the winner against OPL in few-shot learning by SKD.

The rows without and with OPL are those of table 6, and so are their runs.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

from ..item import Row
from . import study, table_6

if TYPE_CHECKING:
    from ..recipe import Recipe

KEYS = ("skd", "skd-opl")
NAMES = {
    table_6.name_of(dataset, "skd-opl"): study.name_of(table_6.name_of(dataset, "skd"))
    for dataset in table_6.BENCHMARKS
}


def _rows(dataset: str) -> tuple[Row, Row, Row]:
    without, opl = (replace(table_6.row(dataset, key), paper={}) for key in KEYS)
    return without, opl, study.winner_row(opl, NAMES)


ITEM = replace(
    table_6.ITEM,
    name="study-few-shot",
    title="Few-shot learning by SKD: the winner of the study against the paper's OPL (not in the paper)",
    rows=tuple(row for dataset in table_6.BENCHMARKS for row in _rows(dataset)),
    note="The winner is compared with OPL, over 3,000 episodes (tiny: 100).",
    setting="",
    quoted=(),
    home=table_6.ITEM.name,
    headline=next(iter(NAMES.values())),
)


def recipes() -> tuple["Recipe", ...]:
    """The recipes of the rows."""
    known = table_6.recipes_of(KEYS)
    return *known, *study.with_winner(known, NAMES)
