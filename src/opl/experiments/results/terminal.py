"""A table on the terminal."""

from .tables import Table, cells


def show(table: Table) -> None:
    """Print a table; its differences, which are long, and its notes stand below it, a line each."""
    from rich.console import Console
    from rich.measure import Measurement
    from rich.table import Table as Grid

    heading, body = cells(table)
    marked = " (synthetic data: the numbers mean nothing)" if table.scale == "tiny" else ""
    grid = Grid(title=f"{table.item.name}: {table.item.title}, scale {table.scale}{marked}")
    apart = len(heading) - len(table.item.main)
    for column, name in enumerate(heading[:apart]):
        parts = [part for row in body for part in ([row[column]] if column > 1 else row[column].split())]
        grid.add_column(name, min_width=max(map(len, parts), default=0))  # labels may wrap, numbers may not
    for row in body:
        grid.add_row(*row[:apart])
    usual = Console()
    console = Console(width=max(usual.width, Measurement.get(usual, usual.options.update(width=1000), grid).minimum))
    console.print(grid)
    for row in body:
        for name, text in zip(heading[apart:], row[apart:], strict=True):
            if text != "-":
                console.print(f"{row[0]}, {name}: {text}", highlight=False, markup=False)
    for line in table.below:
        print(line)
