"""Tables that become cards on a phone; explicit ARIA roles remain valid when CSS changes `display`."""

from .markup import Markup, tag


def heading(words: object, scope: str = "col", **more: object) -> Markup:
    """A header cell."""
    return tag("th", words, scope=scope, role="columnheader", **more)


def cell(label: str, words: str, kind: str = "") -> Markup:
    """A cell with a number; on a card its label precedes it."""
    return tag("td", words, role="cell", class_=f"number {kind}".strip(), data_label=label)


def row(name: str, *cells: Markup) -> Markup:
    """A body row, or one card."""
    return tag("tr", tag("th", name, scope="row", role="rowheader"), *cells, role="row")


def scroll_box(label: str, head: list[list[Markup]], body: list[Markup], kind: str = "") -> Markup:
    """The table in a region that can be scrolled with the keyboard if it is too wide."""
    above = tag("thead", *(tag("tr", *cells, role="row") for cells in head if cells), role="rowgroup")
    table = tag("table", above, tag("tbody", *body, role="rowgroup"), role="table", class_=f"cards {kind}".strip())
    return tag("div", table, class_="box", tabindex="0", role="region", aria_label=label)
