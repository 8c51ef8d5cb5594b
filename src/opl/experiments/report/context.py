"""The input of every part of the page."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from ..item import Row
from ..results.comparisons import Line
from ..results.runs import Run
from .figure import absent
from .groups import Group
from .markup import Markup

FULL = "{} is left out: with it the page would be larger than 3 MB."


@dataclass
class Room:
    """The number of bytes that are left for large parts of the page."""

    left: int

    def take(self, part: Markup | None, what: str) -> Markup | None:
        """The part, or a sentence in its place if there is no room for it."""
        if not part:
            return None
        if len(part) > self.left:
            return absent(FULL.format(what))
        self.left -= len(part)
        return part


@dataclass(frozen=True)
class Experiment:
    """A table or figure at one scale, with what its parts need."""

    group: Group
    rows: Sequence[Row]
    """Its rows that no earlier experiment has shown in detail."""
    lines: Sequence[Line]
    """The rows of its table; empty if it cannot be made."""
    pairs: Sequence[tuple[Row, Row]]
    """A baseline and a row compared with it, for each comparison that is looked at closely; OPL first."""
    room: Room

    @property
    def key(self) -> str:
        """Prefix of its element ids."""
        return self.group.key

    def name_pair(self, place: int) -> str:
        """Prefix of the element ids of a comparison."""
        return f"{self.key}-{place}"


@dataclass(frozen=True)
class Context:
    """The runs of a folder, and the tables and figures they belong to."""

    folder: str
    """Name of the folder."""
    runs: Sequence[Run]
    groups: Sequence[Group]
    room: Room = field(default_factory=lambda: Room(0))
