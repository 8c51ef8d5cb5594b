"""Folders and Parquet files of pictures that can be told apart by their pixels."""

import io
import json
from pathlib import Path

import numpy as np
from PIL import Image


def flat(number: int, side: int = 24) -> Image.Image:
    """A picture of a single color: its red and green spell the number."""
    color = np.array([number % 256, number // 256, 128], dtype=np.uint8)
    return Image.fromarray(np.broadcast_to(color, (side + number % 3, side + number % 5, 3)).copy())


def number_of(pixels) -> list[int]:
    """The numbers of (B, 3, H, W) pixels made of flat pictures."""
    return [int(red) + 256 * int(green) for red, green, _ in pixels[:, :, 0, 0].tolist()]


def encoded(picture: Image.Image, kind: str = "PNG", **options) -> bytes:
    file = io.BytesIO()
    picture.save(file, kind, **options)
    return file.getvalue()


def class_folders(folder: Path, counts: dict[str, int], start: int = 0) -> Path:
    """`<class>/<number>.png` for each class, numbered on from `start`."""
    for name, count in counts.items():
        (folder / name).mkdir(parents=True, exist_ok=True)
        for number in range(start, start + count):
            (folder / name / f"{number:05d}.png").write_bytes(encoded(flat(number)))
        start += count
    return folder


def parquet(file: Path, pictures: list[bytes], labels: list, names: list[str] | None = None) -> Path:
    """A Parquet file in the Hub's layout, with class names in its schema if there are some."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    kind = {"names": names, "_type": "ClassLabel"} if names else {"dtype": "int64", "_type": "Value"}
    told = json.dumps({"info": {"features": {"image": {"_type": "Image"}, "label": kind}}})
    rows = [
        {"image": {"bytes": data, "path": None}, "label": label} for data, label in zip(pictures, labels, strict=True)
    ]
    image = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    label = pa.string() if isinstance(labels[0], str) else pa.int64()
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(
        pa.Table.from_pylist(rows, pa.schema([("image", image), ("label", label)], {"huggingface": told})), file
    )
    return file
