"""Groups the runs of a folder by table or figure and scale; each group has only the rows with runs."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import cast

from ..item import Item, Row
from ..results.runs import Run, select_runs
from ..scales import TABLE_SCALES, RunScale
from .markup import Markup, tag

OTHER = {"test/top1": "top-1 %", "test/top5": "top-5 %", "test/s": "s", "test/d": "d"}


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
        there = {run.name for run in self.runs}
        return tuple(row for row in self.item.at(self.scale) if row.recipe in there)

    def of(self, row: Row) -> list[Run]:
        """The runs of a row, finished or not."""
        return [run for run in self.runs if run.name == row.recipe]

    def finished(self, row: Row) -> list[Run]:
        """The finished runs of a row, sorted by seed."""
        return select_runs(self.runs, row.recipe, self.scale)

    def pairs(self) -> list[tuple[Row, Row]]:
        """Every baseline with a row compared with it, both with runs here; the headline first, then those with OPL."""
        by_recipe = {row.recipe: row for row in self.rows}
        found = [(by_recipe[row.baseline], row) for row in self.rows if row.baseline in by_recipe]
        return sorted(found, key=lambda pair: (pair[1].recipe != self.item.headline, not self._projects(pair[1])))

    def _projects(self, row: Row) -> bool:
        return any(run.projects for run in self.of(row))


def group_runs(runs: Iterable[Run], items: Mapping[str, Item]) -> list[Group]:
    """The groups of the page, in the order of the items; runs that belong to no item form extra groups, one per scale.

    A figure often shares its runs with a table: it is omitted if another group already has all its rows.
    """
    good = [run for run in runs if run.recipe and run.state != "damaged"]
    kept: list[Group] = []
    for scale in TABLE_SCALES:
        found = [_group(item, scale, good) for item in items.values()]
        for group in sorted(found, key=lambda each: (bool(each.item.figure), -len(each.rows))):
            rest = {row.recipe for row in group.rows}
            if rest and not any(each.scale == scale and rest <= _recipes(each) for each in kept):
                kept.append(group)
    order = list(items)
    kept.sort(key=lambda each: (TABLE_SCALES.index(each.scale), order.index(each.item.name)))
    known = {id(run) for group in kept for run in group.runs}
    return kept + _others([run for run in good if id(run) not in known])


def new_rows(shown: Iterable[Group]) -> Iterator[tuple[Group, list[Row]]]:
    """Each group with those of its rows that are in no earlier group, so that shared rows are shown once."""
    seen: set[tuple[str, str]] = set()
    for group in shown:
        rows = [row for row in group.rows if (row.recipe, group.scale) not in seen]
        seen |= {(row.recipe, group.scale) for row in rows}
        if rows:
            yield group, rows


def slug(name: str) -> str:
    """Convert a name to a part of an element id.

    Example:
        >>> slug("table-1, <small>")
        'table-1-small'
    """
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "none"


def badge(scale: str) -> Markup:
    """A badge with the scale of the numbers next to it."""
    mark = ": synthetic data, the numbers mean nothing" if scale == "tiny" else ""
    return tag("span", f"scale {scale}{mark}", class_="badge warn" if scale == "tiny" else "badge")


def _group(item: Item, scale: str, runs: list[Run]) -> Group:
    names = {row.recipe for row in item.at(scale)}
    return Group(item, scale, tuple(run for run in runs if run.scale == scale and run.name in names))


def _recipes(group: Group) -> set[str]:
    return {row.recipe for row in group.rows}


def _others(runs: list[Run]) -> list[Group]:
    made = []
    for scale in sorted({run.scale for run in runs}):
        own = tuple(run for run in runs if run.scale == scale)
        names = list(dict.fromkeys(run.name for run in own))
        rows = tuple(Row(name.replace("|", "¦"), name, {}, scales=(cast(RunScale, scale),)) for name in names)
        results = [run.result for run in own if run.state == "done"]
        metrics = {key: name for key, name in OTHER.items() if all(key in result for result in results)}
        title = "runs that are in no table of the paper"
        made.append(Group(replace(EMPTY, title=title, rows=rows, metrics=metrics), scale, own))
    return made


EMPTY = Item(name="other runs", title="", dataset="", metrics={}, rows=())
