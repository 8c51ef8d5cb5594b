"""Groups the runs of a folder by table or figure and scale; each group has only the rows with runs."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import cast

from ..item import Item, Row
from ..results.runs import Run, select_runs
from ..results.text import compared_rows
from ..scales import TABLE_SCALES, RunScale

NO_ITEM = Item(name="other runs", title="runs that are in no table of the paper", dataset="", metrics={}, rows=())
METRICS = {"test/top1": "top-1 %", "test/top5": "top-5 %", "test/s": "s", "test/d": "d"}
"""The numbers to show for runs that belong to no item."""


@dataclass(frozen=True)
class Group:
    """A table or figure at one scale, and the runs behind it."""

    item: Item
    scale: str
    runs: tuple[Run, ...]

    @property
    def key(self) -> str:
        """Prefix of its element ids."""
        return slug(f"{self.item.name}-{self.scale}")

    @property
    def title(self) -> str:
        """Heading of the group."""
        return f"{self.item.name}: {self.item.title}"

    @cached_property
    def rows(self) -> tuple[Row, ...]:
        """The rows that have runs here."""
        names = {run.name for run in self.runs}
        return tuple(row for row in self.item.at(self.scale) if row.recipe in names)

    @property
    def recipes(self) -> set[str]:
        """The recipes of the rows."""
        return {row.recipe for row in self.rows}

    def of(self, row: Row) -> list[Run]:
        """Return the runs of a row, finished or not."""
        return [run for run in self.runs if run.name == row.recipe]

    def finished(self, row: Row) -> list[Run]:
        """Return the finished runs of a row, sorted by seed."""
        return select_runs(self.runs, row.recipe, self.scale)

    def pairs(self) -> list[tuple[Row, Row]]:
        """Return each baseline with a row compared with it, the most important comparison first."""
        return compared_rows(self.item, self.runs, self.scale)


def group_runs(runs: Iterable[Run], items: Mapping[str, Item]) -> list[Group]:
    """Group runs by item and scale, in the order of the items; runs without an item form one more group per scale.

    A figure often shares its runs with a table: it is omitted if another group already has all its rows.
    """
    readable = [run for run in runs if run.recipe and run.state != "damaged"]
    kept: list[Group] = []
    for scale in TABLE_SCALES:
        groups = [_group(item, scale, readable) for item in items.values()]
        for group in sorted(groups, key=lambda group: (bool(group.item.figure), -len(group.rows))):
            covered = any(earlier.scale == scale and group.recipes <= earlier.recipes for earlier in kept)
            if group.rows and not covered:
                kept.append(group)
    order = list(items)
    kept.sort(key=lambda group: (TABLE_SCALES.index(group.scale), order.index(group.item.name)))
    known = {id(run) for group in kept for run in group.runs}
    return kept + _group_rest([run for run in readable if id(run) not in known])


def new_rows(groups: Iterable[Group]) -> Iterator[tuple[Group, list[Row]]]:
    """Yield each group with the rows that are in no earlier group, so that shared rows are shown once."""
    seen: set[tuple[str, str]] = set()
    for group in groups:
        rows = [row for row in group.rows if (row.recipe, group.scale) not in seen]
        seen |= {(row.recipe, group.scale) for row in rows}
        yield group, rows


def slug(name: str) -> str:
    """Convert a name to a part of an element id.

    Example:
        >>> slug("table-1, <small>")
        'table-1-small'
    """
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "none"


def _group(item: Item, scale: str, runs: list[Run]) -> Group:
    names = {row.recipe for row in item.at(scale)}
    return Group(item, scale, tuple(run for run in runs if run.scale == scale and run.name in names))


def _group_rest(runs: list[Run]) -> list[Group]:
    groups = []
    for scale in sorted({run.scale for run in runs}):
        members = tuple(run for run in runs if run.scale == scale)
        names = list(dict.fromkeys(run.name for run in members))
        rows = tuple(Row(name.replace("|", "¦"), name, {}, scales=(cast(RunScale, scale),)) for name in names)
        results = [run.result for run in members if run.state == "done"]
        metrics = {key: title for key, title in METRICS.items() if all(key in result for result in results)}
        groups.append(Group(replace(NO_ITEM, rows=rows, metrics=metrics), scale, members))
    return groups
