"""Class-similarity matrices, two side by side with the same order of classes, and their content as text."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..figures.similarity import Matrix, describe_neighbors, matrix, page, reorder
from ..item import Row
from ..results.runs import Rows, Run, describe_seeds
from .charts import Charts
from .groups import Group
from .markup import Markup, join, tag

CELLS = 60_000  # maximum for all matrices of a group: six matrices of 100 classes
NEIGHBORS = 3


class MatrixChart(NamedTuple):
    """One row's mean matrix, and the runs it was computed from."""

    matrix: Matrix
    runs: Sequence[Run]

    @property
    def seeds(self) -> list[int]:
        """The seeds of the runs."""
        return [run.seed for run in self.runs]

    @property
    def caption(self) -> str:
        """The label of the row and its seeds."""
        return f"{self.matrix.label}, {describe_seeds(self.seeds)}"


def average(row: Row, runs: Sequence[Run]) -> MatrixChart | None:
    """The mean of a row's matrices; None if its runs have none."""
    there = [run for run in runs if np.ndim(run.arrays().get("similarity", ())) == 2]
    return MatrixChart(matrix(row.label, there), there) if there else None


def figures(group: Group, rows: Rows, charts: Charts) -> Markup | None:
    """The matrices of a group, with one figure for each set of classes."""
    alike: dict[tuple[str, ...], list[MatrixChart]] = {}
    for each in (found for row, runs in rows if (found := average(row, runs))):
        alike.setdefault(each.matrix.class_names, []).append(each)
    return join(*(_figure(group, place, found, charts) for place, found in enumerate(alike.values())))


def _figure(group: Group, place: int, found: Sequence[MatrixChart], charts: Charts) -> Markup:
    """The first two rows; with more than two, a menu on each side selects the row."""
    key = f"matrix-{group.key}-{place}"
    first = found[0]
    count = len(first.matrix.class_names)
    if count**2 > CELLS:
        words = f"The matrices of {count} classes are too large for a page: opl reproduce figure-4 draws them."
        return tag("p", words, class_="absent")
    found = found[: CELLS // count**2]
    words = _in_words(found, f"{group.title}, scale {group.scale}, {count} classes")
    kept = [(each, values) for each in found if (values := charts.keep(page(each.matrix)))]
    if not kept:
        return words
    switch = _switch(orders(first.matrix, first.runs[0].superclasses(count)), key, charts)
    return join(
        tag("div", tag("h4", f"{count} classes against each other"), switch, class_="controls"),
        tag("div", *(_panel(kept, place, key, charts) for place in range(min(2, len(kept)))), class_="grid two"),
        tag("p", "0, right angles ", tag("span", class_="ramp", aria_hidden="true"), " 1, one direction", class_="key"),
        words,
    )


def orders(matrix: Matrix, super_classes: tuple[int, ...]) -> dict[str, list[int]]:
    """The class order of each menu option; applied to all matrices alike, so that cells can be compared."""
    numbered = Matrix(matrix.label, matrix.values, tuple(map(str, range(len(matrix.class_names)))))
    found = {"class": numbered, f"cluster of {matrix.label}": reorder(numbered, "cluster")}
    if len(set(super_classes)) > 1:
        found["super-class"] = reorder(numbered, "class", super_classes)
    return {name: [int(place) for place in each.class_names] for name, each in found.items()}


def _switch(offered: dict[str, list[int]], key: str, charts: Charts) -> Markup:
    choices = [
        tag("label", tag("input", type="radio", name=key, value=place, checked=place == 0, data_order=key), name)
        for place, name in enumerate(offered)
    ]
    legend = tag("legend", "Order by")
    return tag("fieldset", legend, *choices, class_="switch", data_orders=charts.keep(list(offered.values())))


def _panel(kept: Sequence[tuple[MatrixChart, str]], place: int, key: str, charts: Charts) -> Markup:
    drawn, values = kept[place]
    side = f"{key}-{place}"
    options = [tag("option", each.caption, value=own, selected=own == values) for each, own in kept]
    words = f"Row of the matrix on the {'right' if place else 'left'}"
    choice = tag("select", *options, data_panel=side, aria_label=words) if len(kept) > 2 else drawn.caption
    label = f"Matrix of |cosine| between {len(drawn.matrix.class_names)} classes; the list below says it in words"
    chart = charts.place(label, values=values, group=key, side=side, shape="square")
    return tag("figure", tag("figcaption", choice), chart)


def _in_words(found: Sequence[MatrixChart], title: str) -> Markup:
    lists = [
        join(
            tag("h5", each.caption),
            tag("ul", *(tag("li", line) for line in describe_neighbors(each.matrix, NEIGHBORS)), class_="columns"),
        )
        for each in found
    ]
    words = "Nearest and farthest classes"
    box = tag("div", *lists, class_="box", tabindex="0", role="region", aria_label=f"{words}: {title}")
    return tag("details", tag("summary", f"{words}, in words"), box)
