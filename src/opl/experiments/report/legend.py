"""A legend that is also a filter: one check box per line or class, shared by all charts of a figure."""

from collections.abc import Sequence

from ..charts.style import shorten
from .markup import Markup, tag
from .svg import swatch

OPEN = 24  # boxes that are always visible; more are folded away


def filters(labels: Sequence[str], words: str, target: str, most: int = 1000) -> Markup:
    """The check boxes that control the charts of the group `target`.

    Args:
        labels: in the order of the series, so that colors and symbols match.
        words: title of the check boxes.
        target: the group of charts.
        most: the number of boxes that are initially checked.
    """
    boxes = [_box(shorten(label), look, target, look < most) for look, label in enumerate(labels)]
    buttons = [
        tag("button", word, type="button", data_all=target, data_on=on)
        for word, on in (("all", "true"), ("none", "false"))
        if len(labels) > 2
    ]
    content = tag("fieldset", tag("legend", words, class_="hidden"), *boxes, *buttons, class_="filters")
    if len(labels) <= OPEN:
        return content
    return tag("details", tag("summary", f"{words}: choose among {len(labels)}"), content)


def _box(label: str, look: int, target: str, checked: bool) -> Markup:
    given = tag("input", type="checkbox", checked=checked, data_filter=target, data_series=look)
    return tag("label", given, swatch(look), label)
