"""The parts of a text that are made from records: what stands between two marker lines.

<!-- opl results: table-1 small -->
(the table)
<!-- end -->
"""

import re
from collections.abc import Callable

from ...errors import OptionError

BEGIN = re.compile(r"<!-- opl results: (?P<words>[^<>]*) -->")
END = "<!-- end -->"
LIKE_A_MARKER = re.compile(r"<!--\s*opl\s+results|<!--\s*end\s*-->")

Render = Callable[[list[str], int], str]
"""The text of a block, from the words of its marker and the number of the marker's line."""


def render_blocks(text: str, render: Render) -> str:
    """The text with every block made anew, and everything else as it was."""
    found: list[str] = []
    begun = 0  # the line of the marker whose block is being left out
    for place, line in enumerate(text.split("\n"), start=1):
        marker = BEGIN.fullmatch(line.strip())
        if marker and not begun:
            found += [line, "", render(marker["words"].split(), place), ""]
            begun = place
        elif line.strip() == END and begun:
            found.append(line)
            begun = 0
        elif LIKE_A_MARKER.search(line):
            raise OptionError(_problem(place, begun))
        elif not begun:
            found.append(line)
    if begun:
        raise OptionError(f"line {begun} begins a block that has no {END} line: add one where the block ends.")
    return "\n".join(found)


def _problem(place: int, begun: int) -> str:
    if begun:
        return f"line {place} has a marker inside the block that line {begun} begins: put {END} before it."
    return (
        f"line {place} is no marker: write `<!-- opl results: ITEM SCALE -->` on a line of its own, and {END} after it."
    )
