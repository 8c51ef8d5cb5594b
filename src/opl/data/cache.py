"""A data set decoded once, into arrays on disk that every later run maps into memory.

A folder `<name>-<fingerprint>` in `$OPL_CACHE` (or `~/.cache/opl`) holds, for each split, the pixels (N, C, H, W) as
uint8 and each label column (N,) as int64, in NumPy's format, and `contents.json`: what there is, how long each file
is, and its checksum, after its own. The folder is made under another name and renamed when it is complete, so that a
build that was killed is never taken for one that ended; whoever comes second waits for the first, behind a lock that
the system itself releases when its holder dies; and what does not match its checksum is built again, with a warning.
"""

import json
import os
import shutil
import tempfile
import warnings
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from filelock import FileLock
from torch import Tensor

from ..errors import DataError, OplWarning
from .source import Found, Reading, find, unreadable

if TYPE_CHECKING:
    from .decode import Pixels

FORMAT = 1  # raise it when the layout of the folder changes: older ones are then left alone and built anew
CONTENTS = "contents.json"


@dataclass(frozen=True)
class Part:
    """A split, decoded: (N, C, H, W) uint8 pixels, mapped from disk, and (N,) int64 labels by column."""

    pixels: Tensor
    labels: Mapping[str, Tensor]


@dataclass(frozen=True)
class Decoded:
    """A data set, decoded. `label` is the column of the classes; `names` are those of every label column."""

    parts: Mapping[str, Part]
    label: str
    names: Mapping[str, tuple[str, ...]]
    source: str


def load(name: str, root: str = "") -> Decoded:
    """The data set `name`, from the cache if it is there, else decoded into it (see `source.find` for `root`).

    Raises:
        DataError: the data set is nowhere, cannot be read, or the cache cannot be written.
    """
    found = find(name, root)
    folder = cache_folder() / f"{name}-{found.fingerprint(FORMAT)}"
    decoded = _open(folder, found)
    if decoded is None:
        _build_once(folder, found)
        decoded = _open(folder, found)
    if decoded is None:
        raise DataError(f"the cache {str(folder)!r} was damaged as soon as it was written: check the disk.")
    return decoded


def cache_folder() -> Path:
    """Where decoded data sets are kept: `$OPL_CACHE`, or `~/.cache/opl`."""
    return Path(os.environ.get("OPL_CACHE") or "~/.cache/opl").expanduser()


# Opening


def _open(folder: Path, found: Found) -> Decoded | None:
    """What is in `folder`, or None if it must be built (again)."""
    try:
        checksum, _, text = (folder / CONTENTS).read_text().partition("\n")
    except OSError:
        return None
    except ValueError:  # not even text
        checksum = text = ""
    contents: dict[str, Any] = json.loads(text) if text and checksum == _checksum(text) else {"files": {CONTENTS: ()}}
    for file, facts in contents["files"].items():
        if _size_and_checksum(folder / file) != tuple(facts):
            _warn_of_damage(folder, file)
            return None
    labels = contents["labels"]
    parts = {
        split: Part(
            _tensor(folder / f"{split}.pixels.npy", mapped=True),
            {label: _tensor(folder / f"{split}.{label}.npy", mapped=False) for label in labels},
        )
        for split in contents["splits"]
    }
    names = {label: tuple(names) for label, names in contents["names"].items()}
    return Decoded(parts, labels[0], names, found.where)


def _warn_of_damage(folder: Path, file: str) -> None:
    warnings.warn(
        OplWarning(
            f"{file} in the cache {str(folder)!r} is damaged; it is built again. If this returns, check the disk."
        ),
        stacklevel=4,
    )


def _size_and_checksum(file: Path) -> tuple[int, int]:
    try:
        size, checksum = file.stat().st_size, 0
        with file.open("rb") as stream:
            while block := stream.read(1 << 22):
                checksum = zlib.crc32(block, checksum)
    except OSError:
        return -1, 0
    return size, checksum


def _checksum(text: str) -> str:
    return f"{zlib.crc32(text.encode()):08x}"


def _tensor(file: Path, *, mapped: bool) -> Tensor:
    # "c" is copy-on-write: torch takes only arrays that may be written to, and nothing written here reaches the file
    return torch.from_numpy(np.load(file, mmap_mode="c" if mapped else None))


# Building


def _build_once(folder: Path, found: Found) -> None:
    """Build `folder`, or wait until the process that is at it has done so."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(folder.parent / f"{folder.name}.lock"):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", OplWarning)  # said once already
                if _open(folder, found) is not None:
                    return
            _sweep(folder)
            _build(folder, found)
    except OSError as error:
        raise DataError(
            f"the cache {str(folder)!r} cannot be written ({error.strerror or error}): "
            "set OPL_CACHE to a folder with room that you may write to."
        ) from error


def _sweep(folder: Path) -> None:
    """Remove what killed builds and damage left; only for the holder of the lock."""
    for left in (folder, *folder.parent.glob(f".{folder.name}.*")):
        if left.exists():
            shutil.rmtree(left)


def _build(folder: Path, found: Found) -> None:
    temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        text = json.dumps(_write(temporary, found), indent=1)
        (temporary / CONTENTS).write_text(f"{_checksum(text)}\n{text}")
        temporary.chmod(0o755)  # mkdtemp's folders are private; a cache may be shared
        temporary.rename(folder)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def _write(folder: Path, found: Found) -> dict[str, Any]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    reading, files = found.read(), {}
    names = {label: list(reading.names.get(label, ())) for label in reading.label_columns}
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(f"decoding {found.known.name}, once", total=sum(reading.counts.values()))
        for split in reading.counts:
            labels = _write_pixels(
                folder / f"{split}.pixels.npy", found, reading, split, lambda n: progress.advance(task, n)
            )
            for label in reading.label_columns:
                codes = _codes(found, label, labels[label], names)
                np.save(folder / f"{split}.{label}.npy", codes)
                files[f"{split}.{label}.npy"] = _size_and_checksum(folder / f"{split}.{label}.npy")
            files[f"{split}.pixels.npy"] = _size_and_checksum(folder / f"{split}.pixels.npy")
    classes = reading.label_columns[0]
    told = names[classes] or [str(number) for number in range(found.known.num_classes)]
    names[classes] = [found.known.respell.get(name, name) for name in told]
    return {
        "splits": list(reading.counts),
        "labels": list(reading.label_columns),
        "names": names,
        "files": files,
    }


def _write_pixels(
    file: Path, found: Found, reading: Reading, split: str, advance: Callable[[int], None]
) -> dict[str, list[Any]]:
    """Decode a split into `file`, batch after batch; the labels seen on the way.

    Written, not mapped: a full disk is then an error that can be told, where a mapped page would end the process.
    """
    from .decode import decode_all

    labels: dict[str, list[Any]] = {label: [] for label in reading.label_columns}
    shape: tuple[int, ...] = ()
    batches = decode_all(_pictures(reading, split, labels), found.known.mode, 0 if reading.large else 1)
    with closing(batches), file.open("wb") as stream:  # closing: its processes end now, whatever goes wrong
        for pixels in _told(batches, found):
            if not shape:
                shape = pixels.shape[1:]
                header = {"descr": "|u1", "fortran_order": False, "shape": (reading.counts[split], *shape)}
                np.lib.format.write_array_header_1_0(stream, header)
            if pixels.shape[1:] != shape:
                raise unreadable(found, ValueError(f"images of different sizes: {shape[1:]} and {pixels.shape[2:]}"))
            stream.write(pixels.tobytes())
            advance(len(pixels))
    if not shape:
        raise unreadable(found, ValueError(f"no images in the split {split!r}"))
    return labels


def _pictures(reading: Reading, split: str, labels: dict[str, list[Any]]) -> Iterator[list[bytes]]:
    """The encoded pictures, as many at a time as the reader gives; `labels` grow on the way."""
    for table in reading.tables[split]:
        for label in labels:
            labels[label].extend(table.column(label).to_pylist())
        entries = table.column(reading.image_column).to_pylist()
        yield [e if isinstance(e, bytes) else e["bytes"] or Path(e["path"]).read_bytes() for e in entries]


def _told(batches: "Iterator[Pixels]", found: Found) -> "Iterator[Pixels]":
    """Whatever goes wrong on the way from the files, as a sentence."""
    try:
        yield from batches
    except Exception as error:  # a damaged file, a picture that is none, a path that leads nowhere
        raise unreadable(found, error) from error


def _codes(found: Found, label: str, values: list[Any], names: dict[str, list[str]]) -> np.ndarray[Any, Any]:
    """Labels as numbers; words become numbers in alphabetical order, and `names` learns the words."""
    if any(isinstance(value, str) for value in values):
        if not names[label]:
            names[label] = sorted(set(values))
        number = {name: place for place, name in enumerate(names[label])}
        values = [number.get(value, -1) for value in values]
    codes = np.asarray(values, dtype=np.int64)
    limit = len(names[label])
    if not limit and label in found.known.label_columns:
        limit = found.known.num_classes
    if limit and len(codes) and not (codes.min() >= 0 and codes.max() < limit):
        raise DataError(
            f"{found.known.name} in {str(found.folder)!r} has labels from {codes.min()} to {codes.max()} in its column "
            f"{label!r}, which knows 0 to {limit - 1}: check that it is the labelled data set."
        )
    return codes
