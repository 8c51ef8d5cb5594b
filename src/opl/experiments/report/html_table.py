"""Tables that can be sorted and become cards on a phone; ARIA roles remain valid when CSS changes `display`."""

from .glossary import TERMS, term_id
from .markup import Markup, tag


def heading(words: object, sort: bool = True, **more: object) -> Markup:
    """A header cell, which sorts the table when pressed; a term of the glossary is explained when pointed at."""
    term = {"aria_describedby": term_id(str(words))} if str(words) in TERMS else {}
    kind = "sort term" if term else "sort"
    inside = tag("button", words, type="button", class_=kind, **term) if sort else words
    return tag("th", inside, scope="col", role="columnheader", **more)


def cell(label: str, words: object, kind: str = "number", **more: object) -> Markup:
    """A cell; on a card its label precedes it."""
    return tag("td", words, role="cell", class_=kind, data_label=label, **more)


def row(name: object, *cells: Markup, **more: object) -> Markup:
    """A body row, or one card."""
    return tag("tr", tag("th", name, scope="row", role="rowheader"), *cells, role="row", **more)


def scroll_box(label: str, head: list[list[Markup]], body: list[Markup], kind: str = "", key: str = "") -> Markup:
    """The table in a region that can be scrolled with the keyboard if it is too wide."""
    above = tag("thead", *(tag("tr", *cells, role="row") for cells in head if cells), role="rowgroup")
    inside = tag("tbody", *body, role="rowgroup")
    table = tag("table", above, inside, role="table", class_=f"cards {kind}".strip(), id=key or None)
    return tag("div", table, class_="box", tabindex="0", role="group", aria_label=label)
