"""The frame of every chart: a caption, the drawing in the order of the tab key, and its numbers as a table."""

from .html_table import scroll_box
from .markup import Markup, tag

KEYS = "Arrow keys step through its values."


def drawing(label: str, width: float, height: float, *content: Markup, **data: object) -> Markup:
    """An SVG that the tab key reaches; `data` is for the scripts."""
    given = {f"data_{key}": value for key, value in data.items()}
    words = f"{label} {KEYS}" if data else label
    box = {"viewBox": f"0 0 {width:g} {height:g}", "role": "img", "aria_label": words, "tabindex": 0}
    return tag("svg", *content, **box, class_="chart", **given)


def figure(title: object, chart: Markup, table: Markup | None = None, kind: str = "") -> Markup:
    """A chart with its caption and its data table."""
    return tag("figure", tag("figcaption", title), chart, table, class_=kind or None)


def data_table(label: str, head: list[Markup], body: list[Markup], key: str = "", kind: str = "plain") -> Markup:
    """The numbers behind a chart, folded away."""
    box = scroll_box(f"Data: {label}", [head], body, kind, key)
    return tag("details", tag("summary", "Data"), box, class_="data")


def absent(words: str) -> Markup:
    """A sentence in the place of something that cannot be shown."""
    return tag("p", words, class_="absent")
