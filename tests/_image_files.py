"""Small data sets as Parquet files of encoded pictures, in the layout of the Hub."""

import io
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image


def png(pixels: np.ndarray) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, "png")
    return stream.getvalue()


def write(file: Path, pixels: np.ndarray, labels: list[int], names: list[str], image: str = "image", **more) -> None:
    told = {image: {"_type": "Image"}, "label": {"names": names, "_type": "ClassLabel"}}
    column = pa.array([{"bytes": png(picture), "path": None} for picture in pixels])
    columns = {name: pa.array(values, pa.int64()) for name, values in {"label": labels, **more}.items()}
    table = pa.table({image: column, **columns})
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": told}})}), file)


def write_mnist(folder: Path, seed: int = 0) -> dict[str, tuple[np.ndarray, list[int]]]:
    random, parts = np.random.default_rng(seed), {}
    for name, count in (("train", 40), ("test", 20)):
        pixels = random.integers(0, 256, (count, 28, 28), dtype=np.uint8)
        parts[name] = pixels, [i % 10 for i in range(count)]
        write(folder / f"{name}-00000-of-00001.parquet", *parts[name], [str(digit) for digit in range(10)])
    return parts
