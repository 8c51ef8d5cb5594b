"""Decoding a data set into arrays on disk; see `cache`."""

from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import numpy as np

from ....errors import DataError
from .checksums import size_and_checksum
from .decode import Pixels, decode_all
from .label_values import Numbers, class_ids
from .read import read
from .source import DataSource, SourceReader, unreadable_error


def write_decoded(folder: Path, found: DataSource) -> dict[str, Any]:
    """Decode a data set into arrays in a folder; return a description with the size and checksum of each file."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    reading, files = read(found), {}
    shapes: dict[tuple[int, ...], str] = {}
    names = {label: list(reading.names.get(label, ())) for label in reading.label_columns}
    _check_names(found, names)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(f"decoding {found.known.name}, once", total=sum(reading.counts.values()))
        for split in reading.counts:
            codes = _labels(found, reading, split, names)
            file = folder / f"{split}.pixels.npy"
            shapes[_write_pixels(file, found, reading, split, lambda n: progress.advance(task, n))] = split
            _check_shapes(found, shapes)
            files[f"{split}.pixels.npy"] = size_and_checksum(folder / f"{split}.pixels.npy")
            for label in reading.label_columns:
                np.save(folder / f"{split}.{label}.npy", codes[label])
                files[f"{split}.{label}.npy"] = size_and_checksum(folder / f"{split}.{label}.npy")
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
) -> tuple[int, ...]:
    """Decode a split into `file`, batch by batch; return the shape of an image.

    The file is written rather than memory-mapped: a full disk then raises an error, where a mapped page would kill the
    process.
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
            left -= len(pixels)
            if left < 0:
                raise unreadable_error(found, ValueError(f"{reading.counts[split]} labels and more images"))
            stream.write(pixels.tobytes())
            advance(len(pixels))
    if not shape:
        raise unreadable_error(found, ValueError(f"no images in the split {split!r}"))
    if left:
        raise unreadable_error(
            found, ValueError(f"{reading.counts[split]} labels and {reading.counts[split] - left} images")
        )
    return shape


def _check_names(found: DataSource, names: Mapping[str, list[str]]) -> None:
    for label, each in names.items():
        if twice := [name for place, name in enumerate(each) if name in each[:place]]:
            raise unreadable_error(found, ValueError(f"two classes of {label!r} with the name {twice[0]!r:.60}"))


def _check_shapes(found: DataSource, shapes: Mapping[tuple[int, ...], str]) -> None:
    if len(shapes) > 1:
        sizes = " and ".join(f"{height} x {width} in {split!r}" for (_, height, width), split in shapes.items())
        raise unreadable_error(found, ValueError(f"images of {sizes}"))


def _pixels(found: DataSource, reading: SourceReader, split: str) -> Generator[Pixels, None, None]:
    """Yield the pixels of a split in the reader's batches; any failure is raised as a `DataError`."""
    try:
        if reading.decoded:
            yield from cast("Iterator[Pixels]", reading.images(split))
        else:
            pictures = cast("Iterator[list[bytes]]", reading.images(split))
            with closing(decode_all(pictures, found.known.mode, 0 if reading.large else 1)) as decoding:
                yield from decoding  # closing ends its processes immediately, even after an error
    except DataError:
        raise
    except Exception as error:  # a damaged file, an invalid picture, a missing path
        raise unreadable_error(found, error) from error


def _checked(found: DataSource, shape: tuple[int, ...]) -> tuple[int, ...]:
    size = found.known.size
    if size and shape[1:] != (size, size):
        raise unreadable_error(found, ValueError(f"images of {shape[1]} x {shape[2]} instead of {size} x {size}"))
    return shape


def _labels(found: DataSource, reading: SourceReader, split: str, names: dict[str, list[str]]) -> dict[str, Numbers]:
    """Return the labels of a split as integers, by column."""
    try:
        told = reading.labels(split)
        codes = {label: _codes(found, label, told[label], names) for label in reading.label_columns}
    except DataError:
        raise
    except Exception as error:  # any error that pyarrow or `datasets` raises for a file, or an impossible label
        raise unreadable_error(found, error) from error
    classes = codes[reading.label_columns[0]]
    if split == "train" and len(classes) and (classes == classes[0]).all():
        raise unreadable_error(found, ValueError(f"all {len(classes)} images to train on are of class {classes[0]}"))
    return codes


def _codes(found: DataSource, label: str, values: list[Any], names: dict[str, list[str]]) -> Numbers:
    """Convert labels to integers; strings are numbered alphabetically and added to `names`."""
    codes, told = class_ids(values, names[label])
    names[label] = list(told)
    limit = len(told)
    if not limit and label in found.known.label_columns:
        limit = found.known.num_classes
    if limit and len(codes) and not (codes.min() >= 0 and codes.max() < limit):
        raise DataError(
            f"{found.known.name} in {str(found.folder)!r} has labels from {codes.min()} to {codes.max()} in its column "
            f"{label!r}, which knows 0 to {limit - 1}: check that it is the labeled data set."
        )
    return codes
