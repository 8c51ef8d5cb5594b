"""The index of a folder of pictures or of Parquet files, made once and kept in the cache.

A folder `<name>-<fingerprint>` in the cache (see `cache`) holds `index.json` (class names, channels, mean and std, and
the size and checksum of each other file) and, for each split, `<split>.labels.npy`, `<split>.bin` and
`<split>.offsets.npy`, the places of its entries. The entries are the file names of pictures in class folders, which are
read where they are. Parquet files cannot be read at random, because each row is compressed together with a hundred
others: there the entries are the encoded pictures themselves, copied as they are, and of this file only the size is
checked. Nothing is held in memory but the offsets.
"""

import os
import shutil
import tempfile
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock

from ....errors import DataError, OplWarning
from .cache import cache_folder, warn_of_damage
from .checksums import seal, size_and_checksum, unseal
from .picture_source import PictureSource, Split, read_splits
from .picture_statistics import describe_pictures

FORMAT = 2  # increase it when the content of the folder changes
INDEX, PACKED = "index.json", ".bin"


@dataclass(frozen=True)
class PictureFiles:
    """The encoded pictures of a split, read one by one."""

    packed: Path
    offsets: Any
    """(N + 1,) int64: entry i is `packed[offsets[i]:offsets[i + 1]]`."""
    folder: Path | None
    """Where the pictures are, if the entries are file names."""

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def read(self, row: int) -> bytes:
        """Return an encoded picture."""
        entry = self._entry(row)
        if self.folder is None:
            return entry
        with open(os.path.join(self.folder, os.fsdecode(entry)), "rb") as file:
            return file.read()

    def name(self, row: int) -> str:
        """Return a name of the picture, for messages."""
        if self.folder is None:
            return f"picture {row} of {self.packed.name.removesuffix(PACKED)!r}"
        return repr(str(self.folder / os.fsdecode(self._entry(row))))

    def _entry(self, row: int) -> bytes:
        start, end = int(self.offsets[row]), int(self.offsets[row + 1])
        with open(self.packed, "rb", buffering=0) as file:
            return os.pread(file.fileno(), end - start, start)


@dataclass(frozen=True)
class PictureIndex:
    """What is known of a data set of pictures before any is decoded for training."""

    folder: Path
    source: PictureSource
    class_names: tuple[str, ...]
    channels: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    splits: tuple[str, ...]

    def files(self, split: str) -> PictureFiles:
        """Return the pictures of a split."""
        offsets = np.load(self.folder / f"{split}.offsets.npy", mmap_mode="r")
        return PictureFiles(
            self.folder / f"{split}{PACKED}", offsets, None if self.source.files else self.source.folder
        )

    def labels(self, split: str) -> Any:
        """Return the labels of a split, (N,) int64."""
        return np.load(self.folder / f"{split}.labels.npy")


def open_index(source: PictureSource) -> PictureIndex:
    """Open the index of a data set; the first process makes it, and the others wait."""
    folder = cache_folder() / f"{source.name}-{source.fingerprint(FORMAT)}"
    try:
        told = _read(folder, source)
        if told is None:
            folder.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(folder.parent / f"{folder.name}.lock"):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", OplWarning)  # already warned about
                    told = _read(folder, source)
                told = told or _build(folder, source)
    except OSError as error:
        raise DataError(
            f"the index of {source.where!r} in the cache {str(folder)!r} cannot be written or read "
            f"({error.strerror or error}): set OPL_CACHE to a folder with room that you may write to."
        ) from error
    return PictureIndex(
        folder,
        source,
        tuple(told["class_names"]),
        told["channels"],
        tuple(told["mean"]),
        tuple(told["std"]),
        tuple(told["splits"]),
    )


def _read(folder: Path, source: PictureSource) -> dict[str, Any] | None:
    """What an index says; None if there is none, or it is damaged, which is said."""
    if not folder.is_dir():
        return None
    try:
        told = unseal(folder / INDEX)
    except OSError:
        told = None
    files: dict[str, list[int]] = told["files"] if told else {INDEX: []}
    damaged = next((name for name, facts in files.items() if _facts(folder / name, source) != facts), None)
    if damaged is not None:
        warn_of_damage(folder, damaged)
    return None if damaged else told


def _facts(file: Path, source: PictureSource) -> list[int]:
    """The size of a file, and its checksum unless it holds the pictures themselves."""
    if file.suffix == PACKED and source.files:
        return [file.stat().st_size] if file.is_file() else []
    return [*size_and_checksum(file)]


def _build(folder: Path, source: PictureSource) -> dict[str, Any]:
    temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        class_names, splits = read_splits(source)
        for split in splits:
            _write_split(temporary, split)
        told: dict[str, Any] = {"class_names": class_names, "splits": [split.name for split in splits]}
        told["files"] = {file.name: _facts(file, source) for file in sorted(temporary.iterdir())}
        index = PictureIndex(temporary, source, (), 0, (), (), ())
        told |= describe_pictures(index.files("train"))
        (temporary / INDEX).write_text(seal(told))
        temporary.chmod(0o755)  # mkdtemp creates private folders, but a cache may be shared
        shutil.rmtree(folder, ignore_errors=True)  # if it was damaged
        temporary.rename(folder)
        return told
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def _write_split(folder: Path, split: Split) -> None:
    np.save(folder / f"{split.name}.labels.npy", np.asarray(split.labels, dtype=np.int64))
    with (folder / f"{split.name}{PACKED}").open("wb") as file:
        lengths = np.fromiter(_written(file, split.entries), dtype=np.int64)
    np.save(folder / f"{split.name}.offsets.npy", np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64))


def _written(file: Any, entries: Iterable[bytes]) -> Iterator[int]:
    for entry in entries:
        yield file.write(entry)
