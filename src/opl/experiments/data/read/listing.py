"""A list of labeled pictures in any layout: which there are, of which class, in which part. No torch, no decoding."""

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from ...files import read_limited
from .layouts import MOST_BYTES

IMAGE_COLUMNS = ("image", "img", "path", "image_path", "file", "filename", "file_name", "filepath")
LABEL_COLUMNS = ("label", "labels", "class", "category", "target", "fine_label", "class_name", "y")
PART_COLUMNS = ("split", "part", "subset", "set")
"""The names of columns in tables, the first that is there is taken."""
PART_NAMES = {
    "train": "train",
    "training": "train",
    "validation": "validation",
    "valid": "validation",
    "val": "validation",
    "dev": "validation",
    "test": "test",
    "testing": "test",
}
"""What parts of data are called, and their names here."""
NAMED = 3  # files that a note names


class Entry(NamedTuple):
    """A picture that is somewhere."""

    part: str
    """`train`, `validation` or `test`; empty if the data has no parts."""
    label: str
    """The name of its class."""
    name: str
    """Where it is, for messages."""


@dataclass(frozen=True)
class Listing:
    """All pictures of a data set."""

    where: str
    """For messages: the folder, the file, or the Hub id."""
    layout: str
    """For messages, such as `class folders`."""
    entries: tuple[Entry, ...]
    read: Callable[[Sequence[int]], Iterator[bytes | str]]
    """Yields, for ascending rows, each encoded picture, or a string that says why it cannot be read."""
    fingerprint: str
    """Changes with the files."""
    classes: tuple[str, ...] = ()
    """The names of the classes in order, if the files tell; otherwise they are sorted."""
    notes: tuple[str, ...] = ()
    """What was found and left out."""


def read_files(files: Sequence[Path | str]) -> Callable[[Sequence[int]], Iterator[bytes | str]]:
    """Return the function that reads pictures which are files of their own; a string says why one is not read."""

    def read(rows: Sequence[int]) -> Iterator[bytes | str]:
        for file in (files[row] for row in rows):
            if isinstance(file, str):
                yield file
                continue
            try:
                yield read_limited(file, MOST_BYTES)
            except OSError as error:
                yield error.strerror or str(error)

    return read


def fingerprint_files(files: Iterable[Path], *facts: object) -> str:
    """Return a hash of the path, size and modification time of files, and of further facts."""
    told: list[object] = list(facts)
    for file in files:
        try:
            stat = file.stat()
            told.append((os.fspath(file), stat.st_size, stat.st_mtime_ns))
        except OSError:
            told.append((os.fspath(file), -1))
    return hashlib.blake2b(json.dumps(told).encode(), digest_size=8).hexdigest()


def name_some(names: Sequence[str]) -> str:
    """Return the first names of a list, and how many more there are.

    Example:
        >>> name_some(["a", "b", "c", "d", "e"])
        'a, b, c and 2 more'
    """
    more = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {more:,} more" if more > 0 else "")


def count(number: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun.

    Example:
        >>> count(1, "picture"), count(2000, "copy", "copies")
        ('1 picture', '2,000 copies')
    """
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
