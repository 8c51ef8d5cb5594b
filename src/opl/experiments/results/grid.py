"""Rows and lines on the terminal, whole at any width; where the output is no terminal, lines are never broken."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

WIDEST = 10_000  # columns, more than any table needs
EMPTY = "-"
"""A cell without a value."""


def show_rows(title: str, heading: Sequence[str], body: Sequence[Sequence[str]], labels: int = 1) -> None:
    """Print rows as a grid, or a paragraph for each where the terminal is too narrow for that.

    Args:
        title: stands above.
        heading: of the columns.
        body: the cells of each row.
        labels: the number of first columns that may be broken between words; the others may not.
    """
    from rich.console import Console

    console = Console()
    grid = _grid(title, heading, body, labels)
    least = console.measure(grid, options=console.options.update(width=WIDEST)).minimum
    if least <= console.width:
        console.print(grid)
    elif console.is_terminal:
        _show_stacked(console, title, heading, body)
    else:
        Console(width=least).print(grid)


def show_columns(body: Sequence[Sequence[str]]) -> None:
    """Print rows as columns without lines between them; on a terminal, all but the first may be broken."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    if not console.is_terminal:
        widths = [max(map(len, column)) for column in zip(*body, strict=True)]
        for row in body:
            print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
        return
    grid = Table.grid(padding=(0, 2))
    for column in range(len(body[0])):
        grid.add_column(overflow="fold", no_wrap=column == 0 and console.width > 2 * max(len(row[0]) for row in body))
    for row in body:
        grid.add_row(*map(Text, row))
    console.print(grid)


def show_lines(lines: Iterable[str], stderr: bool = False) -> None:
    """Print lines, on a terminal broken between words."""
    from rich.console import Console

    console = Console(stderr=stderr)
    for line in lines:
        console.print(line, highlight=False, markup=False, soft_wrap=not console.is_terminal)


def _grid(title: str, heading: Sequence[str], body: Sequence[Sequence[str]], labels: int) -> "Table":
    from rich.table import Table
    from rich.text import Text

    grid = Table(title=Text(title))
    for column, name in enumerate(heading):
        parts = [part for row in body for part in (row[column].split() if column < labels else [row[column]])]
        grid.add_column(Text(name), min_width=max(map(len, (*parts, *name.split())), default=0), overflow="fold")
    for row in body:
        grid.add_row(*map(Text, row))
    return grid


def _show_stacked(console: "Console", title: str, heading: Sequence[str], body: Sequence[Sequence[str]]) -> None:
    """A paragraph for each row, its first cell above it."""
    from rich.padding import Padding
    from rich.text import Text

    console.print(Text(title))
    for row in body:
        console.print(Text(row[0], "bold"))
        cells = [f"{name}: {text}" for name, text in zip(heading[1:], row[1:], strict=True) if text != EMPTY]
        console.print(Padding(Text("; ".join(cells)), (0, 0, 0, 2)))
