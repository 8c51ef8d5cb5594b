"""`opl data`: which data sets are here."""

from dataclasses import dataclass

from .flags import Flags


@dataclass(frozen=True)
class Data(Flags):
    """Which data sets are here, from where, and how to get the rest."""

    def run(self) -> int:
        """Print the list."""
        from rich.console import Console
        from rich.table import Table

        from ..data import describe

        rows = describe()
        table = Table(title="data sets")
        for name in rows[0]:
            table.add_column(name)
        for row in rows:
            table.add_row(*(str(value) for value in row.values()))
        Console().print(table)
        return 0
