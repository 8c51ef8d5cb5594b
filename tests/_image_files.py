"""Small data sets of encoded images, as Parquet files in the layout of the Hub and as class folders."""

import io
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image


def png(pixels: np.ndarray) -> bytes:
    return encoded(Image.fromarray(pixels))


def write(file: Path, pixels: np.ndarray, labels: list[int], names: list[str], image: str = "image", **more) -> None:
    features = {image: {"_type": "Image"}, "label": {"names": names, "_type": "ClassLabel"}}
    column = pa.array([{"bytes": png(values), "path": None} for values in pixels])
    columns = {name: pa.array(values, pa.int64()) for name, values in {"label": labels, **more}.items()}
    table = pa.table({image: column, **columns})
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})}), file)


def write_mnist(folder: Path, seed: int = 0) -> dict[str, tuple[np.ndarray, list[int]]]:
    random, parts = np.random.default_rng(seed), {}
    for name, count in (("train", 40), ("test", 20)):
        pixels = random.integers(0, 256, (count, 28, 28), dtype=np.uint8)
        parts[name] = pixels, [i % 10 for i in range(count)]
        write(folder / f"{name}-00000-of-00001.parquet", *parts[name], [str(digit) for digit in range(10)])
    return parts


def flat(number: int, side: int = 24) -> Image.Image:
    """An image of a single color: its red and green encode the number."""
    color = np.array([number % 256, number // 256, 128], dtype=np.uint8)
    return Image.fromarray(np.broadcast_to(color, (side + number % 3, side + number % 5, 3)).copy())


def number_of(pixels) -> list[int]:
    """Return the numbers of flat images from their (B, 3, H, W) pixels."""
    return [int(red) + 256 * int(green) for red, green, _ in pixels[:, :, 0, 0].tolist()]


def encoded(image: Image.Image, kind: str = "PNG", **options) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def class_folders(folder: Path, counts: dict[str, int], start: int = 0) -> Path:
    """Write `<class>/<number>.png` for every class, numbered from `start`."""
    for name, count in counts.items():
        (folder / name).mkdir(parents=True, exist_ok=True)
        for number in range(start, start + count):
            (folder / name / f"{number:05d}.png").write_bytes(encoded(flat(number)))
        start += count
    return folder


def parquet(file: Path, images: list[bytes], labels: list, names: list[str] | None = None) -> Path:
    """Write a Parquet file in the Hub's layout, with the class names in its schema if given."""
    kind = {"names": names, "_type": "ClassLabel"} if names else {"dtype": "int64", "_type": "Value"}
    features = json.dumps({"info": {"features": {"image": {"_type": "Image"}, "label": kind}}})
    rows = [
        {"image": {"bytes": data, "path": None}, "label": label} for data, label in zip(images, labels, strict=True)
    ]
    image = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    label = pa.string() if isinstance(labels[0], str) else pa.int64()
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(
        pa.Table.from_pylist(rows, pa.schema([("image", image), ("label", label)], {"huggingface": features})), file
    )
    return file
