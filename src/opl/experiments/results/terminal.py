"""A table on the terminal."""

from .grid import EMPTY, show_lines, show_rows
from .tables import Table, cells


def show(table: Table) -> None:
    """Print a table; its differences, which are long, and its notes stand below it, a line each."""
    heading, body = cells(table)
    marked = " (synthetic data: the numbers mean nothing)" if table.scale == "tiny" else ""
    title = f"{table.item.name}: {table.item.title}, scale {table.scale}{marked}"
    apart = len(heading) - len(table.item.main)
    show_rows(title, heading[:apart], [row[:apart] for row in body], labels=2)
    show_lines(
        f"{row[0]}, {name}: {text}"
        for row in body
        for name, text in zip(heading[apart:], row[apart:], strict=True)
        if text != EMPTY
    )
    show_lines(table.below)
