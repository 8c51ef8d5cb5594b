"""The cache: a data set decoded once into arrays on disk, which later runs map into memory.

A folder `<name>-<fingerprint>` in `$OPL_CACHE` (or `~/.cache/opl`) holds, for each split, the pixels (N, C, H, W) as
uint8 and each label column (N,) as int64, in NumPy's format. Its `contents.json` starts with its own checksum and lists
the content of the folder with the size and checksum of each file. The folder is built under a temporary name and
renamed when complete, so that an interrupted build is never mistaken for a finished one. Concurrent processes wait for
the first, whose lock is released when it ends. A folder that does not match its checksums is rebuilt,
with a warning. The fingerprint is made of the content of the data set's files: replaced files are never mistaken for
those that were decoded.
"""

import os
import shutil
import tempfile
import warnings
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from filelock import FileLock
from torch import Tensor

from ...._ranges import FolderName
from ....errors import DataError, OplWarning, OptionError
from .checksums import seal, size_and_checksum, unseal
from .source import DataSource, find, unreadable_error

FORMAT = 2  # increase it when the folder layout changes; older folders are then ignored and rebuilt
CONTENTS = "contents.json"
NAME = FolderName()
BUILD = "build-"  # in the names of unfinished folders, beside which processes that wait keep files


@dataclass(frozen=True)
class DecodedPart:
    """A decoded split: (N, C, H, W) uint8 pixels, memory-mapped, and (N,) int64 labels by column."""

    pixels: Tensor
    labels: Mapping[str, Tensor]


@dataclass(frozen=True)
class DecodedData:
    """A decoded data set. `label` is the class column; `names` are the value names of every label column."""

    parts: Mapping[str, DecodedPart]
    label: str
    names: Mapping[str, tuple[str, ...]]
    source: str


def load(name: str, root: str = "", parts: Collection[str] = (), *, bgr: bool = False) -> DecodedData:
    """Load the data set `name` from the cache, decoding it into the cache if needed (see `source.find` for `root`).

    Args:
        name: a key of `CATALOG`.
        root: the data set's folder; if empty, it is searched for.
        parts: the splits to open and check; empty opens all.
        bgr: whether its files hold BGR arrays, which are then converted to RGB.

    Raises:
        DataError: the data set is not found, cannot be read, or the cache cannot be written.
    """
    found = find(name, root)
    return load_source(_turned(found) if bgr else found, parts)


def load_source(found: DataSource, parts: Collection[str] = ()) -> DecodedData:
    """Load a data set whose files have been found already."""
    folder = _folder(found)
    decoded = _open(folder, found, parts)
    if decoded is None:
        _build_once(folder, found, parts)
        decoded = _open(folder, found, parts)
    if decoded is None:
        raise DataError(f"the cache {str(folder)!r} was damaged as soon as it was written: check the disk.")
    _say_what_is_missing(found, decoded)
    return decoded


def _folder(found: DataSource) -> Path:
    """The folder of a decoded data set; it is named after the content of all files."""
    if not NAME.allows(found.known.name):
        raise OptionError(f"the name of a data set is {found.known.name!r:.80}: give one {NAME}.")
    try:
        return cache_folder() / f"{found.known.name}-{found.fingerprint(FORMAT, cache_folder())}"
    except OSError as error:
        raise unreadable_error(found, error) from error


def _say_what_is_missing(found: DataSource, decoded: DecodedData) -> None:
    for split, part in decoded.parts.items():
        there, complete = len(part.pixels), found.known.images.get(split, 0)
        if complete and there != complete and not found.known.classes:
            warnings.warn(
                OplWarning(
                    f"{found.known.name} in {str(found.folder)!r} has {there:,} images in its split {split!r}, where "
                    f"the complete data set has {complete:,}: numbers will not compare with those of others."
                ),
                stacklevel=2,
            )


def cache_folder() -> Path:
    """Return the folder of decoded data sets: `$OPL_CACHE`, or `~/.cache/opl`."""
    return Path(os.environ.get("OPL_CACHE") or "~/.cache/opl").expanduser()


def _turned(found: DataSource) -> DataSource:
    if found.layout != "zipped":
        raise OptionError(
            f"bgr is for arrays that do not tell the order of their colors ('..._images.npz'), and {found.known.name} "
            f"in {str(found.folder)!r} has pictures that do: leave bgr out."
        )
    return replace(found, bgr=True)


# Opening


def _open(folder: Path, found: DataSource, only: Collection[str] = ()) -> DecodedData | None:
    """Open the data in `folder`; None if it must be built or rebuilt."""
    try:
        contents = unseal(folder / CONTENTS) or {"files": {CONTENTS: ()}}
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:
        contents = {"files": {CONTENTS: ()}}
    for file, facts in contents["files"].items():
        if only and file != CONTENTS and file.partition(".")[0] not in only:
            continue
        if size_and_checksum(folder / file) != tuple(facts):
            warn_of_damage(folder, file)
            return None
    labels = contents["labels"]
    parts = {
        split: DecodedPart(
            _tensor(folder / f"{split}.pixels.npy", mapped=True),
            {label: _tensor(folder / f"{split}.{label}.npy", mapped=False) for label in labels},
        )
        for split in contents["splits"]
        if not only or split in only
    }
    names = {label: tuple(names) for label, names in contents["names"].items()}
    return DecodedData(parts, labels[0], names, found.where)


def warn_of_damage(folder: Path, file: str) -> None:
    """Say that a file of the cache is damaged."""
    warnings.warn(
        OplWarning(
            f"{file} in the cache {str(folder)!r} is damaged; it is built again. If this returns, check the disk."
        ),
        stacklevel=4,
    )


def _tensor(file: Path, *, mapped: bool) -> Tensor:
    # "c" is copy-on-write: torch requires writable arrays, and no write reaches the file
    return torch.from_numpy(np.load(file, mmap_mode="c" if mapped else None, allow_pickle=False))


# Building


def _build_once(folder: Path, found: DataSource, only: Collection[str] = ()) -> None:
    """Build `folder`, or wait for another process that is building it."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(folder.parent / f"{folder.name}.lock"):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", OplWarning)  # already warned about
                if _open(folder, found, only) is not None:
                    return
            _sweep(folder)
            _build(folder, found)
    except OSError as error:
        raise DataError(
            f"the cache {str(folder)!r} cannot be written ({error.strerror or error}): "
            "set OPL_CACHE to a folder with room that you may write to."
        ) from error


def _sweep(folder: Path) -> None:
    """Remove the remains of interrupted builds and damaged folders; the caller must hold the lock."""
    for left in (folder, *folder.parent.glob(f".{folder.name}.{BUILD}*")):
        if left.exists():
            shutil.rmtree(left)


def _build(folder: Path, found: DataSource) -> None:
    temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}.{BUILD}", dir=folder.parent))
    from .cache_writer import write_decoded

    try:
        (temporary / CONTENTS).write_text(seal(write_decoded(temporary, found)))
        temporary.chmod(0o755)  # mkdtemp creates private folders, but a cache may be shared
        temporary.rename(folder)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
