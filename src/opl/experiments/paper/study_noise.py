"""The study where OPL lost, not in the paper: the winner against OPL with noisy labels and the truncated loss.

The rows without and with OPL are those of table 3, and so are their runs; the small scale has MNIST only.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

from ..item import Row
from . import study, table_3, table_3_beyond

if TYPE_CHECKING:
    from ..recipe import Recipe

KEYS = ("tl", "tl-opl")
PLACES = tuple((dataset, noise) for dataset in table_3.BENCHMARKS for noise in table_3.NOISES)
NAMES = {
    table_3.name_of(dataset, noise, "tl-opl"): study.name_of(table_3.name_of(dataset, noise, "tl"))
    for dataset, noise in PLACES
}


def _rows(dataset: str, noise: str) -> tuple[Row, Row, Row]:
    without, opl = (table_3_beyond.row(dataset, noise, key) for key in KEYS)
    return without, opl, study.winner_row(opl, NAMES)


ITEM = replace(
    table_3_beyond.ITEM,
    name="study-noise",
    title="Label noise, 40 %: the winner of the study against the paper's OPL (not in the paper)",
    rows=tuple(row for place in PLACES for row in _rows(*place)),
    note="The winner is compared with OPL.",
    headline=NAMES[table_3.name_of(table_3.MNIST, table_3.UNIFORM, "tl-opl")],
)


def recipes() -> tuple["Recipe", ...]:
    """The recipes of the rows."""
    known = table_3.recipes_of(lambda dataset: KEYS)
    return *known, *study.with_winner(known, NAMES)
