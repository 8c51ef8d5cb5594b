"""`opl data [NAME]`: which data sets are on this machine, and how to get the others."""

from dataclasses import dataclass
from typing import Any

from tyro.conf import Positional

from ...errors import OptionError, did_you_mean
from .flags import Flags, show_status

SEE = "opl data NAME shows the splits and the license of a data set, and all ways to get it."


@dataclass(frozen=True)
class Data(Flags):
    """List the data sets on this machine and how to get the others, or show one of them in detail."""

    name: Positional[str] = ""
    """A data set, for example cifar100."""

    def run(self) -> int:
        """Print the list, or the details of one data set."""
        from ..results.text import show_columns, show_lines

        with show_status("looking for data sets"):
            from ..data import describe

            rows = {row["name"]: row for row in describe()}
        if self.name and self.name not in rows:
            raise OptionError(did_you_mean("data set", self.name, rows, "opl data"))
        if self.name:
            show_lines(_details(rows[self.name]))
            return 0
        show_columns([_line(row) for row in rows.values()])
        show_lines(["", SEE])
        return 0


def _line(row: dict[str, Any]) -> tuple[str, ...]:
    """Return the name, state, classes, images, and where it is or how to get it."""
    where = row["where"] or row["source"]
    whole = sum(row["parts"].values())
    partial = row["here"] and row["images"] < whole
    state = "partial" if partial else "here" if row["here"] else "damaged" if row["where"] else "absent"
    images = f"{row['images']:,} of {whole:,} images" if partial else f"{row['images']:,} images"
    return row["name"], state, f"{row['classes']:,} classes", images, where


def _details(row: dict[str, Any]) -> list[str]:
    parts = ", ".join(f"{name} {count:,}" for name, count in row["parts"].items())
    return [
        f"{row['name']}: {'here' if row['here'] else 'not here'}{': ' if row['where'] else ''}{row['where']}",
        f"{row['classes']:,} classes, {row['images']:,} images{' here' if row['here'] else ''}; complete: {parts}",
        f"to get it: {row['get']}",
    ]
