"""The study on PACS, not in the paper: the winner against OPL, each domain held out in turn.

The rows with OPL are those of table 5 for its first network, and so are their runs: plain training (ERM) and RSC.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

from ..item import Average, Row
from . import study, table_5

if TYPE_CHECKING:
    from ..recipe import Recipe

NETWORK = table_5.RESNET50
KEYS = {"erm-opl": "erm", "rsc-opl": "rsc"}  # with the paper's OPL, and its name with the winner
NAMES = {
    table_5.name_of(target, NETWORK, opl): study.name_of(table_5.name_of(target, NETWORK, key))
    for target in (*table_5.TARGETS, "average")
    for opl, key in KEYS.items()
}


def _rows(target: str, key: str) -> tuple[Row, Row]:
    opl = replace(table_5.row(NETWORK, target, key), paper={}, baseline="")
    return opl, study.winner_row(opl, NAMES)


def _averages(key: str) -> tuple[Average, Average]:
    opl, winner = _rows("average", key)
    parts = tuple(table_5.name_of(target, NETWORK, key) for target in table_5.TARGETS)
    return Average(opl, parts), Average(winner, tuple(NAMES[part] for part in parts))


ITEM = replace(
    table_5.ITEM,
    name="study-domains",
    title="PACS: the winner of the study against the paper's OPL (not in the paper)",
    rows=tuple(row for target in table_5.TARGETS for key in KEYS for row in _rows(target, key)),
    note="Weights are chosen by validation images of the source domains. The winner is compared with OPL.",
    setting="",
    quoted=(),
    averages=tuple(average for key in KEYS for average in _averages(key)),
    others=(),
    home=table_5.ITEM.name,
    headline=next(iter(NAMES.values())),
)


def recipes() -> tuple["Recipe", ...]:
    """The recipes of the rows."""
    known = tuple(each for each in table_5.recipes() if each.name in NAMES)
    return *known, *study.with_winner(known, NAMES)
