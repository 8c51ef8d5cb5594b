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
from collections.abc import Callable, Collection, Generator, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from filelock import FileLock
from torch import Tensor

from ....errors import DataError, OplWarning, OptionError
from .source import DataSource, SourceReader, find, unreadable_error

if TYPE_CHECKING:
    from .decode import Pixels

FORMAT = 1  # raise it when the layout of the folder changes: older ones are then left alone and built anew
CONTENTS = "contents.json"


@dataclass(frozen=True)
class DecodedPart:
    """A split, decoded: (N, C, H, W) uint8 pixels, mapped from disk, and (N,) int64 labels by column."""

    pixels: Tensor
    labels: Mapping[str, Tensor]


@dataclass(frozen=True)
class DecodedData:
    """A data set, decoded. `label` is the column of the classes; `names` are those of every label column."""

    parts: Mapping[str, DecodedPart]
    label: str
    names: Mapping[str, tuple[str, ...]]
    source: str


def load(name: str, root: str = "", parts: Collection[str] = (), *, bgr: bool = False) -> DecodedData:
    """The data set `name`, from the cache if it is there, else decoded into it (see `source.find` for `root`).

    Args:
        name: one of `KNOWN`.
        root: the data set's folder; empty looks for it.
        parts: open and check only those of its splits; empty opens all.
        bgr: its files hold arrays with blue first, to be turned around.

    Raises:
        DataError: the data set is nowhere, cannot be read, or the cache cannot be written.
    """
    found = find(name, root)
    return load_source(_turned(found) if bgr else found, parts)


def load_source(found: DataSource, parts: Collection[str] = ()) -> DecodedData:
    """The same for a data set that was found already."""
    folder = cache_folder() / f"{found.known.name}-{found.fingerprint(FORMAT)}"
    decoded = _open(folder, found, parts)
    if decoded is None:
        _build_once(folder, found, parts)
        decoded = _open(folder, found, parts)
    if decoded is None:
        raise DataError(f"the cache {str(folder)!r} was damaged as soon as it was written: check the disk.")
    return decoded


def cache_folder() -> Path:
    """Where decoded data sets are kept: `$OPL_CACHE`, or `~/.cache/opl`."""
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
    """What is in `folder`, or None if it must be built (again)."""
    try:
        checksum, _, text = (folder / CONTENTS).read_text().partition("\n")
    except OSError:
        return None
    except ValueError:  # not even text
        checksum = text = ""
    contents: dict[str, Any] = json.loads(text) if text and checksum == _checksum(text) else {"files": {CONTENTS: ()}}
    for file, facts in contents["files"].items():
        if only and file != CONTENTS and file.partition(".")[0] not in only:
            continue
        if _size_and_checksum(folder / file) != tuple(facts):
            _warn_of_damage(folder, file)
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


def _build_once(folder: Path, found: DataSource, only: Collection[str] = ()) -> None:
    """Build `folder`, or wait until the process that is at it has done so."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(folder.parent / f"{folder.name}.lock"):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", OplWarning)  # said once already
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
    """Remove what killed builds and damage left; only for the holder of the lock."""
    for left in (folder, *folder.parent.glob(f".{folder.name}.*")):
        if left.exists():
            shutil.rmtree(left)


def _build(folder: Path, found: DataSource) -> None:
    temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        text = json.dumps(_write(temporary, found), indent=1)
        (temporary / CONTENTS).write_text(f"{_checksum(text)}\n{text}")
        temporary.chmod(0o755)  # mkdtemp's folders are private; a cache may be shared
        temporary.rename(folder)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def _write(folder: Path, found: DataSource) -> dict[str, Any]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    reading, files = found.read(), {}
    names = {label: list(reading.names.get(label, ())) for label in reading.label_columns}
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(f"decoding {found.known.name}, once", total=sum(reading.counts.values()))
        for split in reading.counts:
            codes = _labels(found, reading, split, names)
            _write_pixels(folder / f"{split}.pixels.npy", found, reading, split, lambda n: progress.advance(task, n))
            files[f"{split}.pixels.npy"] = _size_and_checksum(folder / f"{split}.pixels.npy")
            for label in reading.label_columns:
                np.save(folder / f"{split}.{label}.npy", codes[label])
                files[f"{split}.{label}.npy"] = _size_and_checksum(folder / f"{split}.{label}.npy")
    classes = reading.label_columns[0]
    told = names[classes] or found.known.names or [str(number) for number in range(found.known.num_classes)]
    names[classes] = [found.known.respell.get(name, name) for name in told]
    return {
        "splits": list(reading.counts),
        "labels": list(reading.label_columns),
        "names": names,
        "files": files,
    }


def _write_pixels(
    file: Path, found: DataSource, reading: SourceReader, split: str, advance: Callable[[int], None]
) -> None:
    """Decode a split into `file`, batch after batch.

    Written, not mapped: a full disk is then an error that can be told, where a mapped page would end the process.
    """
    shape: tuple[int, ...] = ()
    left = reading.counts[split]
    with closing(_pixels(found, reading, split)) as batches, file.open("wb") as stream:
        for pixels in batches:
            if not shape:
                shape = _checked(found, pixels.shape[1:])
                header = {"descr": "|u1", "fortran_order": False, "shape": (reading.counts[split], *shape)}
                np.lib.format.write_array_header_1_0(stream, header)
            if pixels.shape[1:] != shape:
                raise unreadable_error(
                    found, ValueError(f"images of different sizes: {shape[1:]} and {pixels.shape[2:]}")
                )
            stream.write(pixels.tobytes())
            advance(len(pixels))
            left -= len(pixels)
    if not shape:
        raise unreadable_error(found, ValueError(f"no images in the split {split!r}"))
    if left:
        raise unreadable_error(
            found, ValueError(f"{reading.counts[split]} labels and {reading.counts[split] - left} images")
        )


def _pixels(found: DataSource, reading: SourceReader, split: str) -> "Generator[Pixels, None, None]":
    """The pixels of a split, as many images at a time as the reader gives; what goes wrong is told as a sentence."""
    from .decode import decode_all

    try:
        if reading.decoded:
            yield from cast("Iterator[Pixels]", reading.images(split))
        else:
            pictures = cast("Iterator[list[bytes]]", reading.images(split))
            with closing(decode_all(pictures, found.known.mode, 0 if reading.large else 1)) as decoding:
                yield from decoding  # closing: its processes end now, whatever goes wrong
    except DataError:
        raise
    except Exception as error:  # a damaged file, a picture that is none, a path that leads nowhere
        raise unreadable_error(found, error) from error


def _checked(found: DataSource, shape: tuple[int, ...]) -> tuple[int, ...]:
    size = found.known.size
    if size and shape[1:] != (size, size):
        raise unreadable_error(found, ValueError(f"images of {shape[1]} x {shape[2]} instead of {size} x {size}"))
    return shape


def _labels(
    found: DataSource, reading: SourceReader, split: str, names: dict[str, list[str]]
) -> dict[str, np.ndarray[Any, Any]]:
    """The labels of a split as numbers, by column."""
    try:
        told = reading.labels(split)
    except Exception as error:  # whatever pyarrow and `datasets` find wrong with a file
        raise unreadable_error(found, error) from error
    return {label: _codes(found, label, told[label], names) for label in reading.label_columns}


def _codes(found: DataSource, label: str, values: list[Any], names: dict[str, list[str]]) -> np.ndarray[Any, Any]:
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
            f"{label!r}, which knows 0 to {limit - 1}: check that it is the labeled data set."
        )
    return codes
