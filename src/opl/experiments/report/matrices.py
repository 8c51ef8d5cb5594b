"""Class-similarity matrices before and after, and their difference, with the same order of classes."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..charts.similarity import Matrix, describe_neighbors, is_signed, matrix, off_diagonal_mean, reorder
from ..charts.style import shorten
from ..item import Row
from ..results.runs import BROKEN, Run, describe_seeds
from .context import Experiment
from .embedded import embed
from .figure import absent, data_table
from .html_table import cell, heading, row
from .images import DIVERGING, SEQUENTIAL, heat_map
from .markup import Markup, join, tag

Array = NDArray[Any]
CLASSES = 150  # of a matrix, at most
NEIGHBORS = 3
NAMED = 40  # classes that are listed below the matrices
CHANGES = 40  # pairs of classes in the data table
LEAD = (
    "The cosine between the mean test features of every two classes: OPL asks for 0 off the diagonal. The third matrix "
    "is the change of |cosine|: blue pairs came nearer to right angles, orange ones moved away from them."
)


class Panel(NamedTuple):
    """One matrix to draw: its caption, values and scale."""

    caption: str
    words: str
    values: Array
    low: float
    high: float
    stops: tuple[str, ...]


def average(row_of: Row, runs: Sequence[Run]) -> tuple[Matrix, list[int]] | None:
    """The mean of a row's matrices, and the seeds it is of; None if its runs have none."""
    there = [run for run in runs if np.ndim(run.arrays().get("similarity", ())) == 2]
    return (matrix(row_of.label, there), [run.seed for run in there]) if there else None


def section(experiment: Experiment, place: int) -> Markup | None:
    """The matrices of one comparison."""
    try:
        found = [average(each, experiment.group.finished(each)) for each in experiment.pairs[place]]
        if found[0] is None or found[1] is None:
            return None
        return _figure(experiment, place, found[0], found[1])
    except BROKEN as error:
        return absent(f"The matrices cannot be drawn: {error}")


def panels(first: tuple[Matrix, list[int]], second: tuple[Matrix, list[int]]) -> list[Panel]:
    """Before, after, and the change of |cosine|."""
    before, after = (np.asarray(each[0].values, dtype=float) for each in (first, second))
    scale = (-1.0, 1.0, DIVERGING) if is_signed([first[0], second[0]]) else (0.0, 1.0, SEQUENTIAL)
    made = []
    for found, seeds in (first, second):
        words = f"{describe_seeds(seeds)}, off-diagonal mean |cos| {off_diagonal_mean(found):.3f}"
        made.append(Panel(found.label, words, np.asarray(found.values, dtype=float), *scale))
    change = np.abs(after) - np.abs(before)
    largest = max(0.01, float(np.nanmax(np.abs(change), initial=0.0)))
    mean = off_diagonal_mean(second[0]) - off_diagonal_mean(first[0])
    return [*made, Panel("change of |cos|", f"mean {mean:+.3f}", change, -largest, largest, DIVERGING)]


def orders(one: Matrix, super_classes: tuple[int, ...]) -> dict[str, list[int]]:
    """The class order of each option; applied to all matrices alike, so that cells can be compared."""
    numbered = Matrix(one.label, one.values, tuple(map(str, range(len(one.class_names)))))
    found = {"class": numbered, f"cluster of {one.label}": reorder(numbered, "cluster")}
    if len(set(super_classes)) > 1:
        found["super-class"] = reorder(numbered, "class", super_classes)
    return {name: [int(place) for place in each.class_names] for name, each in found.items()}


def _figure(
    experiment: Experiment, place: int, first: tuple[Matrix, list[int]], second: tuple[Matrix, list[int]]
) -> Markup | None:
    names = first[0].class_names
    count = len(names)
    if second[0].class_names != names:
        return absent("The two rows have different classes, so their matrices cannot be compared.")
    if count > CLASSES:
        return absent(f"The matrices of {count} classes are too large for a page: opl reproduce figure-4 draws them.")
    key = f"matrix-{experiment.name_pair(place)}"
    run = experiment.group.finished(experiment.pairs[place][0])[0]
    offered = orders(first[0], run.superclasses(count))
    made = panels(first, second)
    values = {"names": [shorten(name) for name in names], "orders": list(offered.values()), "cells": _cells(made)}
    return experiment.room.take(
        join(
            tag("p", LEAD, class_="lead"),
            _switch(offered, key),
            tag("div", *(_panel(each, list(offered.values()), key) for each in made), class_="grid three"),
            _names(names, key),
            embed(key, values),
            _changes(made, names),
            _in_words([first[0], second[0]]),
        ),
        "The picture of the classes",
    )


def _names(names: Sequence[str], key: str) -> Markup | None:
    """The classes in the order of the matrices; the script changes it with them."""
    if len(names) > NAMED:
        return None
    listed = tag("span", ", ".join(map(shorten, names)), data_names=key)
    return tag("p", "Classes from top to bottom and from left to right: ", listed, ".", class_="note")


def _cells(made: Sequence[Panel]) -> list[list[list[int]]]:
    """Thousandths of the first two matrices, row by row up to the diagonal: they are symmetric."""
    return [
        [
            np.round(1000 * np.nan_to_num(each.values[line, : line + 1])).astype(int).tolist()
            for line in range(len(each.values))
        ]
        for each in made[:2]
    ]


def _switch(offered: dict[str, list[int]], key: str) -> Markup:
    choices = [
        tag("label", tag("input", type="radio", name=key, value=place, checked=place == 0, data_order=key), name)
        for place, name in enumerate(offered)
    ]
    return tag("fieldset", tag("legend", "Order by"), *choices, class_="switch")


def _panel(each: Panel, orders_of: Sequence[Sequence[int]], key: str) -> Markup:
    images = [
        tag(
            "img",
            src=heat_map(each.values[np.ix_(order, order)], each.low, each.high, each.stops),
            alt="",
            hidden=place > 0,
            data_place=place,
        )
        for place, order in enumerate(orders_of)
    ]
    label = f"Matrix of {len(each.values)} classes, {each.caption}, {each.words}. Arrow keys step through its cells."
    cursor = tag("span", class_="cell", hidden=True)
    chart = tag("div", *images, cursor, class_="matrix", role="img", tabindex="0", aria_label=label, data_matrix=key)
    stops = ", ".join(each.stops)
    ramp = tag("span", class_="ramp", style=f"background:linear-gradient(90deg, {stops})", aria_hidden="true")
    ends = f"{each.low:+.2g}" if each.low < 0 else "0", f"{each.high:+.2g}" if each.low < 0 else "1"
    scale = tag("p", ends[0], " ", ramp, " ", ends[1], class_="key")
    caption = tag("figcaption", each.caption, tag("span", f" {each.words}", class_="quiet"))
    return tag("figure", caption, chart, scale)


def _changes(made: Sequence[Panel], names: Sequence[str]) -> Markup:
    """The pairs of classes that moved most."""
    change = np.nan_to_num(made[2].values)
    pairs = [(one, other) for one in range(len(names)) for other in range(one)]
    pairs.sort(key=lambda pair: -abs(change[pair]))
    head = [heading(word) for word in ("classes", "before", "after", "change of |cos|")]
    body = [
        row(
            f"{names[other]} and {names[one]}",
            cell("before", f"{made[0].values[one, other]:.3f}"),
            cell("after", f"{made[1].values[one, other]:.3f}"),
            cell("change of |cos|", f"{change[one, other]:+.3f}"),
        )
        for one, other in pairs[:CHANGES]
    ]
    title = f"the {len(body)} pairs of classes that changed most" if len(pairs) > CHANGES else "every pair of classes"
    return data_table(title, head, body)


def _in_words(found: Sequence[Matrix]) -> Markup:
    lists = [
        join(
            tag("h4", each.label),
            tag("ul", *(tag("li", line) for line in describe_neighbors(each, NEIGHBORS)), class_="columns"),
        )
        for each in found
    ]
    words = "Nearest and farthest classes"
    box = tag("div", *lists, class_="box", tabindex="0", role="group", aria_label=words)
    return tag("details", tag("summary", f"{words}, in words"), box)
