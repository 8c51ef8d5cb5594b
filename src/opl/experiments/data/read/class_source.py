"""Where the pictures of some classes come from, whatever the format of their files; `class_files` reads them."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from .source import DataSource

CLASSES = "classes"  # the layout of these data sets
T = TypeVar("T")


@dataclass(frozen=True)
class ClassSource(DataSource):
    """A data set on this machine, of which some classes are read."""

    layout: str = CLASSES
    classes: tuple[str, ...] = ()
    """The classes to read; their order gives the labels."""
    aliases: Mapping[str, str] = field(default_factory=dict)
    """Other names of classes, by which files may call them."""
    columns: tuple[str, ...] = ()
    """Columns of Parquet files that make the name of a class, joined by '/'; empty for the label alone."""
    invert: bool = False
    """Whether black and white are exchanged."""
    most: int = 0
    """The most pictures of a class that are read, evenly spread over its pictures; 0 reads all."""

    def fingerprint(self, version: int, cache: Path) -> str:
        """Return a hash of the files and of everything else that determines the decoded data."""
        facts = [self.known.size, self.classes, self.columns, self.invert, self.most]
        text = json.dumps([super().fingerprint(version, cache), CLASSES, *facts])
        return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()

    def spread(self, pictures: Sequence[T]) -> list[T]:
        """Return the pictures of a class that are read."""
        count = min(self.most or len(pictures), len(pictures))
        return [pictures[place * len(pictures) // count] for place in range(count)]
