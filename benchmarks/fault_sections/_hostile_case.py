"""A hostile file: how it is made, the command that meets it, and how to see that it got its way."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

PLACE, CANARY, OUT = "hostile", "canary", "runs"
SECRET = 171  # the value of all pixels of a picture that nobody may read


class Case(NamedTuple):
    """A hostile file."""

    name: str
    make: Callable[[Path], Path]
    """Make it below a scratch folder, and return the file or folder."""
    words: Callable[[Path], list[str]]
    """The words after `opl`; what the command writes is below the scratch folder."""
    forbidden: Callable[[Path], bool]
    """Whether it got its way: code ran, a file outside was read or written, a script is on a page."""
    fresh: bool = False
    """Whether the command must be a new Python process, because it starts processes of its own."""


class Touch:
    """A value whose pickle writes the canary when it is loaded."""

    def __init__(self, scratch: Path) -> None:
        self.command = f"touch '{scratch / CANARY}'"

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, (self.command,)


def new_place(scratch: Path) -> Path:
    """Make and return the folder of a case."""
    place = scratch / PLACE
    place.mkdir(parents=True, exist_ok=True)
    return place


def ran(place: Path) -> bool:
    """Whether the canary was written, or the secret picture is in the cache."""
    scratch = place.parent
    decoded = [file.read_bytes() for file in (scratch / "cache").rglob("*.npy")]
    return (scratch / CANARY).exists() or any(bytes([SECRET]) * 700 in content for content in decoded)


def train(recipe: str, *flags: str) -> Callable[[Path], list[str]]:
    """The words that train a recipe on the data in the place."""

    def words(place: Path) -> list[str]:
        return ["train", recipe, "--epochs", "1", "--out", str(place.parent / OUT), "--data.root", str(place), *flags]

    return words


def start_from(*flags: str) -> Callable[[Path], list[str]]:
    """The words that start a small training from the weights in the place."""

    def words(place: Path) -> list[str]:
        out = str(place.parent / OUT)
        return [
            "train",
            "digits-opl",
            "--scale",
            "tiny",
            "--epochs",
            "1",
            "--out",
            out,
            "--weights",
            str(place),
            *flags,
        ]

    return words
