"""Folders as values: names of files, and their contents."""

import io
import json
import os
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

Files = dict[str, Any]
"""The contents of a folder by name: bytes, a `Link`, `PIPE`, `FOLDER`, or a function of the folder that returns one."""
PIPE, FOLDER = object(), object()
PARTS = ("train", "val", "test")
SHARD, TEST_SHARD = "train-00000-of-00001.parquet", "test-00000-of-00001.parquet"


class Link(str):
    """A link to this path."""


def write(folder: Path, files: Files) -> None:
    """Write the files of a folder."""
    for name, content in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        content = content(folder) if callable(content) else content
        if content is FOLDER:
            file.mkdir()
        elif content is PIPE:
            os.mkfifo(file)
        else:
            file.symlink_to(content) if isinstance(content, Link) else file.write_bytes(content)


def for_parts(**contents: Any) -> Files:
    """Files whose names have `{}` in place of a part: train, val and test."""
    return {name.format(part): data for name, data in contents.items() for part in PARTS}


def random_image(seed: int, size: int = 16) -> Image.Image:
    """A random image."""
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (size, size, 3), dtype=np.uint8))


def encode(image: Image.Image, kind: str = "PNG") -> bytes:
    """An encoded image."""
    stream = io.BytesIO()
    image.save(stream, kind)
    return stream.getvalue()


def gray(value: int = 0, size: int = 28) -> bytes:
    """An image with one value everywhere."""
    return encode(Image.fromarray(np.full((size, size), value, np.uint8)))


def domains(seed: int = 0, per_class: int = 4) -> Files:
    """Two domains with three classes each: `<domain>/<class>/<image>.png`."""
    classes = [f"{domain}/class-{label}" for domain in "ab" for label in range(3)]
    names = [f"{place}/{index}.png" for place in classes for index in range(per_class)]
    return {name: encode(random_image(1000 * seed + number)) for number, name in enumerate(names)}


def parquet(columns: dict[str, Any], features: dict[str, Any] | None = None, **options: Any) -> bytes:
    """A Parquet file, with features of `datasets` in its schema if they are given."""
    table = pa.table({name: v if isinstance(v, pa.Array) else pa.array(v) for name, v in columns.items()})
    if features is not None:
        table = table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})})
    stream = io.BytesIO()
    pq.write_table(table, stream, **options)
    return stream.getvalue()


def idx(values: np.ndarray) -> bytes:
    """An array in the idx format."""
    return struct.pack(f">BBBB{values.ndim}I", 0, 0, 8, values.ndim, *values.shape) + values.tobytes()


def npy(array: np.ndarray, **more: np.ndarray) -> bytes:
    """An array in NumPy's format, or an archive of named arrays."""
    stream = io.BytesIO()
    np.savez(stream, **more) if more else np.save(stream, array)
    return stream.getvalue()
