"""Reader of idx files, the original format of MNIST and Fashion-MNIST: a header of sizes, then bytes."""

import gzip
import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from .decode import Pixels
from .source import DataSource, SourceReader, unreadable_error

MOST_BYTES = 1 << 30  # of one file, unpacked; MNIST has 47 million


def read(found: DataSource, rows: int = 512) -> SourceReader:
    """Open the data set; images are read only when they are iterated over."""
    files = found.files
    sizes = {part: _shape(_start(files[part][0]), 3)[0] for part in files}

    def labels(part: str) -> dict[str, list[int]]:
        told = _array(files[part][1], 1)
        if len(told) != sizes[part]:
            raise unreadable_error(found, ValueError(f"{sizes[part]} images and {len(told)} labels for {part}"))
        return {"label": told.tolist()}

    def images(part: str) -> Iterator[Pixels]:
        pixels = _array(files[part][0], 3)[:, None]
        for start in range(0, len(pixels), rows):
            yield pixels[start : start + rows]

    return SourceReader(("label",), {"label": found.known.names}, sizes, labels, images, decoded=True)


def _array(file: Path, dimensions: int) -> Pixels:
    """Read an array, and no more than its header says: a few bytes may unpack to any number."""
    with _open(file) as stream:
        shape = _shape(stream.read(4 + 4 * dimensions), dimensions)
        size = math.prod(shape)
        if size > MOST_BYTES:
            raise ValueError(f"{file.name} says {' x '.join(map(str, shape))}, more than {MOST_BYTES:,} bytes")
        content = stream.read(size + 1)
    if len(content) != size:
        there = "more" if len(content) > size else len(content)
        raise ValueError(f"{file.name} holds {there} bytes and says {' x '.join(map(str, shape))}")
    return np.frombuffer(content, np.uint8).reshape(shape)


def _start(file: Path) -> bytes:
    with _open(file) as stream:
        return bytes(stream.read(16))


def _open(file: Path) -> gzip.GzipFile:
    """Open a file, gzipped or not, as its first bytes indicate; its name may be wrong."""
    with file.open("rb") as stream:
        zipped = stream.read(2) == b"\x1f\x8b"
    return gzip.open(file) if zipped else file.open("rb")  # type: ignore[return-value]


def _shape(content: bytes, dimensions: int) -> tuple[int, ...]:
    """Parse the header: two zeros, 8 for uint8, the number of dimensions, then each size, all big-endian."""
    if content[:4] != bytes([0, 0, 8, dimensions]) or len(content) < 4 + 4 * dimensions:
        raise ValueError(f"no idx file of bytes in {dimensions} dimensions")
    return tuple(np.frombuffer(content, ">u4", dimensions, offset=4).tolist())
