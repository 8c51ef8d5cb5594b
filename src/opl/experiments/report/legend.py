"""A legend that is also a filter: one check box per line or class, shared by all charts of a figure."""

from collections.abc import Sequence

from ..figures.style import color, marker, shorten, texts
from .markup import Markup, tag

# Plotly's symbols as SVG paths in a 12 x 12 square.
_SHAPES = {
    "circle": "M6 1.5a4.5 4.5 0 1 0 0 9a4.5 4.5 0 1 0 0-9z",
    "square": "M2 2h8v8h-8z",
    "diamond": "M6 .8L11.2 6L6 11.2L.8 6z",
    "triangle-up": "M6 1.2L11 10.2H1z",
    "triangle-down": "M6 10.8L11 1.8H1z",
    "x": "M3 1L6 4L9 1L11 3L8 6L11 9L9 11L6 8L3 11L1 9L4 6L1 3z",
    "cross": "M4.5 1h3v3.5H11v3H7.5V11h-3V7.5H1v-3h3.5z",
}


def filters(labels: Sequence[str], words: str, target: str, most: int = 1000) -> Markup:
    """The check boxes that control the charts of the group `target`.

    Args:
        labels: as passed to the figure, in the same order, so that colors and symbols match.
        words: title of the check boxes.
        target: the group of charts.
        most: the number of boxes that are initially checked.
    """
    boxes = [
        _box(shorten(label), name, look, target, look < most)
        for look, (label, name) in enumerate(zip(labels, texts(labels), strict=True))
    ]
    return tag("fieldset", tag("legend", words, class_="hidden"), *boxes, class_="filters")


def _box(label: str, name: str, look: int, target: str, checked: bool) -> Markup:
    path = tag("path", d=_SHAPES[marker(look)], fill=color(look))
    sign = tag("svg", path, viewBox="0 0 12 12", width=12, height=12, aria_hidden="true")
    given = tag("input", type="checkbox", checked=checked, data_filter=target, data_name=name)
    return tag("label", given, sign, label)
