"""Reader of idx files, in which MNIST and Fashion-MNIST first came: a header of sizes, then bytes; gzipped or not."""

import gzip
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from .decode import Pixels
from .source import DataSource, SourceReader, unreadable_error


def read(found: DataSource, rows: int = 512) -> SourceReader:
    """Open it; images are read when they are walked through."""
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
    with _open(file) as stream:
        content = stream.read()
    shape = _shape(content, dimensions)
    values = np.frombuffer(content, np.uint8, offset=4 + 4 * dimensions)
    if values.size != np.prod(shape):
        raise ValueError(f"{file.name} holds {values.size} bytes and says {' x '.join(map(str, shape))}")
    return values.reshape(shape)


def _start(file: Path) -> bytes:
    with _open(file) as stream:
        return bytes(stream.read(16))


def _open(file: Path) -> gzip.GzipFile:
    """Whatever its name says, by its first bytes."""
    with file.open("rb") as stream:
        zipped = stream.read(2) == b"\x1f\x8b"
    return gzip.open(file) if zipped else file.open("rb")  # type: ignore[return-value]


def _shape(content: bytes, dimensions: int) -> tuple[int, ...]:
    """Two zeros, 8 for bytes, the number of dimensions, then each size; all with the highest byte first."""
    if content[:4] != bytes([0, 0, 8, dimensions]) or len(content) < 4 + 4 * dimensions:
        raise ValueError(f"no idx file of bytes in {dimensions} dimensions")
    return tuple(np.frombuffer(content, ">u4", dimensions, offset=4).tolist())
