"""Tables that become cards on a phone; their parts keep their roles, which a change of display would take from them."""

from .markup import Markup, tag


def heading(words: object, scope: str = "col", **more: object) -> Markup:
    """A cell of the head."""
    return tag("th", words, scope=scope, role="columnheader", **more)


def cell(label: str, words: str, kind: str = "") -> Markup:
    """A number; on a card its label stands before it."""
    return tag("td", words, role="cell", class_=f"number {kind}".strip(), data_label=label)


def row(name: str, *cells: Markup) -> Markup:
    """A row of the body, or one card."""
    return tag("tr", tag("th", name, scope="row", role="rowheader"), *cells, role="row")


def scroll_box(label: str, head: list[list[Markup]], body: list[Markup], kind: str = "") -> Markup:
    """The table, in a region of its own that can be scrolled with the keyboard where it is too wide."""
    above = tag("thead", *(tag("tr", *cells, role="row") for cells in head if cells), role="rowgroup")
    table = tag("table", above, tag("tbody", *body, role="rowgroup"), role="table", class_=f"cards {kind}".strip())
    return tag("div", table, class_="box", tabindex="0", role="region", aria_label=label)
