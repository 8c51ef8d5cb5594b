"""`opl data [NAME]`: which data sets are here, and how to get the others."""

from dataclasses import dataclass
from typing import Any

from tyro.conf import Positional

from ...errors import OptionError, did_you_mean
from .flags import Flags, show_status

SEE = "opl data NAME says more of one: its parts, license, and every way to get it."


@dataclass(frozen=True)
class Data(Flags):
    """Which data sets are here, from where, and how to get the rest: a line each, or all about one."""

    name: Positional[str] = ""
    """For instance cifar100."""

    def run(self) -> int:
        """Print the list, or what is known of one data set."""
        from ..results.text import show_columns, show_lines

        with show_status("looking for data sets"):
            from ..data import describe

            found = {row["name"]: row for row in describe()}
        if self.name and self.name not in found:
            raise OptionError(did_you_mean("data set", self.name, found, "opl data"))
        if self.name:
            show_lines(_details(found[self.name]))
            return 0
        show_columns([_line(row) for row in found.values()])
        show_lines(["", SEE])
        return 0


def _line(row: dict[str, Any]) -> tuple[str, ...]:
    """Name, state, classes, images, and where it is or how to get it."""
    where = row["where"] or row["source"]
    state = "here" if row["here"] else "damaged" if row["where"] else "absent"
    return row["name"], state, f"{row['classes']:,} classes", f"{row['images']:,} images", where


def _details(row: dict[str, Any]) -> list[str]:
    parts = ", ".join(f"{name} {count:,}" for name, count in row["parts"].items())
    return [
        f"{row['name']}: {'here' if row['here'] else 'not here'}{': ' if row['where'] else ''}{row['where']}",
        f"{row['classes']:,} classes, {row['images']:,} images{' here' if row['here'] else ''}; complete: {parts}",
        f"to get it: {row['get']}",
    ]
