"""Class-similarity matrices, two beside each other in one order, and the same in words."""

from collections.abc import Sequence

from ..figures.similarity import Matrix, describe_neighbors, page, reorder
from ..results.runs import groups
from .charts import Charts
from .groups import Group
from .markup import Markup, join, tag
from .predictions import RunPredictions

CELLS = 60_000  # of all matrices of a group: those of 100 classes six times
NeighborS = 3


def figures(group: Group, seen: Sequence[RunPredictions], charts: Charts) -> Markup | None:
    """The matrices of a group, those of the same classes together."""
    alike: dict[tuple[str, ...], list[tuple[RunPredictions, Matrix]]] = {}
    for one in seen:
        matrix = one.matrix()
        if matrix is not None:
            alike.setdefault(matrix.class_names, []).append((one, matrix))
    return join(*(_figure(group, place, found, charts) for place, found in enumerate(alike.values())))


def _figure(group: Group, place: int, found: Sequence[tuple[RunPredictions, Matrix]], charts: Charts) -> Markup:
    """The first two rows, and, where there are more, a choice on each side."""
    key = f"matrix-{group.key}-{place}"
    one, first = found[0]
    count = len(first.class_names)
    if count**2 > CELLS:
        words = f"The matrices of {count} classes are too large for a page: opl reproduce figure-4 draws them."
        return tag("p", words, class_="absent")
    found = found[: CELLS // count**2]
    words = _in_words([matrix for _, matrix in found], f"{group.title}, scale {group.scale}, {count} classes")
    kept = [(matrix, values) for _, matrix in found if (values := charts.keep(page(matrix)))]
    if not kept:
        return words
    switch = _switch(orders(first, groups(one.run, count)), key, charts)
    return join(
        tag("div", tag("h4", f"{count} classes against each other"), switch, class_="controls"),
        tag("div", *(_panel(kept, place, key, charts) for place in range(min(2, len(kept)))), class_="grid two"),
        tag("p", "0, right angles ", tag("span", class_="ramp", aria_hidden="true"), " 1, one direction", class_="key"),
        words,
    )


def orders(matrix: Matrix, super_classes: tuple[int, ...]) -> dict[str, list[int]]:
    """The classes in each order that is offered: the same in all matrices, so that cells can be compared."""
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


def _panel(kept: Sequence[tuple[Matrix, str]], place: int, key: str, charts: Charts) -> Markup:
    matrix, values = kept[place]
    side = f"{key}-{place}"
    options = [tag("option", each.label, value=own, selected=own == values) for each, own in kept]
    words = f"Row of the matrix on the {'right' if place else 'left'}"
    choice = tag("select", *options, data_panel=side, aria_label=words) if len(kept) > 2 else matrix.label
    label = f"Matrix of |cosine| between {len(matrix.class_names)} classes; the list below says it in words"
    chart = charts.place(label, values=values, group=key, side=side, shape="square")
    return tag("figure", tag("figcaption", choice), chart)


def _in_words(matrices: Sequence[Matrix], title: str) -> Markup:
    lists = [
        join(
            tag("h5", matrix.label),
            tag("ul", *(tag("li", line) for line in describe_neighbors(matrix, NeighborS)), class_="columns"),
        )
        for matrix in matrices
    ]
    words = "Nearest and farthest classes"
    box = tag("div", *lists, class_="box", tabindex="0", role="region", aria_label=f"{words}: {title}")
    return tag("details", tag("summary", f"{words}, in words"), box)
