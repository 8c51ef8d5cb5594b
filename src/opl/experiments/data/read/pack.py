"""A pack: labeled pictures decoded to one size, with their parts, as arrays in a folder of their own.

The folder holds `pixels.npy` (N, C, size, size) uint8, `labels.npy` and `parts.npy` (N,), and `pack.json`, which starts
with its own checksum and has the facts, and the size and checksum of each array. It is written last.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....errors import DataError
from ...files import write_whole
from .checksums import seal, size_and_checksum, unseal

FACTS = "pack.json"
PARTS = ("train", "val", "test")
"""The parts by their numbers in `parts.npy`."""
ARRAYS = ("pixels", "labels", "parts")
FORMAT = 1


@dataclass(frozen=True)
class PackFacts:
    """What is known of the pictures of a pack."""

    source: str
    class_names: tuple[str, ...]
    channels: int
    size: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    counts: tuple[tuple[int, ...], ...]
    """Pictures of each class in the training, validation and test part."""
    key: str
    """Names the files that it was made of, and how."""
    notes: tuple[str, ...] = ()
    """What was found, and what was left out."""
    left_out: tuple[str, ...] = ()
    """All pictures that cannot be read, and why."""

    @property
    def sizes(self) -> tuple[int, ...]:
        """Pictures in each part."""
        return tuple(sum(part) for part in self.counts)

    @property
    def per_class(self) -> tuple[int, ...]:
        """Pictures of each class, in all parts."""
        return tuple(map(sum, zip(*self.counts, strict=True)))


def write_pack(folder: Path, facts: PackFacts, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write a pack; an interrupted one is never read."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / FACTS).unlink(missing_ok=True)
    for name in ARRAYS:
        np.save(folder / f"{name}.npy", arrays[name])
    files = {name: size_and_checksum(folder / f"{name}.npy") for name in ARRAYS}
    write_whole(folder / FACTS, seal({"format": FORMAT, "files": files, **asdict(facts)}).encode())


def read_facts(folder: Path) -> PackFacts | None:
    """Read what is known of a pack; None if there is none, or it is damaged."""
    content = _content(folder)
    if content is None:
        return None
    values = {name: value for name, value in content.items() if name not in ("format", "files")}
    return PackFacts(**{name: _frozen(value) for name, value in values.items()})


def read_arrays(folder: Path) -> dict[str, NDArray[Any]]:
    """Open the arrays of a pack; the pixels are mapped into memory.

    Raises:
        DataError: it is not there, or damaged.
    """
    files = (_content(folder) or {}).get("files", {})
    for name in ARRAYS:
        if list(size_and_checksum(folder / f"{name}.npy")) != files.get(name):
            raise DataError(
                f"the images in {str(folder)!r} are missing or damaged: delete that folder, and run the same opl try "
                "again, which makes it anew."
            )
    # "c" is copy-on-write: torch requires writable arrays, and no write reaches the file
    return {name: np.load(folder / f"{name}.npy", mmap_mode="c", allow_pickle=False) for name in ARRAYS}


def _content(folder: Path) -> dict[str, Any] | None:
    try:
        content = unseal(folder / FACTS)
    except (OSError, json.JSONDecodeError):
        return None
    return content if content and content.get("format") == FORMAT else None


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value
