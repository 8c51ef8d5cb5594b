"""Write a synthetic ImageNet: JPEG files of many sizes in class folders, and the same images as Parquet shards.

    python benchmarks/synthetic_imagenet.py FOLDER --train 20000 --val 2000 --classes 1000

`FOLDER/folders` has `train/<class>/<image>` and `val/<class>/<image>`, `FOLDER/parquet` the Hub's layout, with a
hundred rows in a row group. A class is a coarse pattern of colors under noise, so that a network can learn something.
Images have 200 to 640 pixels per side (`--sides`), and about as many bytes as real photos.
"""

import argparse
import io
import json
import time
from pathlib import Path

import numpy as np
from PIL import Image

SHARD = 5000  # images
NOISE = 40.0


class Painter:
    """Paints images of a class from a fixed noise field, of which each takes a window."""

    def __init__(self, classes: int, sides: tuple[int, int]) -> None:
        chance = np.random.default_rng(0)
        self.sides = sides
        self.patterns = chance.integers(0, 256, (classes, 4, 4, 3), dtype=np.uint8)
        coarse = chance.normal(0, NOISE, (400, 400, 3)).repeat(3, 0).repeat(3, 1)
        self.field = (coarse + chance.normal(0, NOISE / 2, coarse.shape)).astype(np.int16)

    def paint(self, label: int, number: int) -> bytes:
        """Return an encoded image."""
        chance = np.random.default_rng([label, number])
        width, height = (int(side) for side in chance.integers(self.sides[0], self.sides[1] + 1, 2))
        top, left = chance.integers(0, len(self.field) - height), chance.integers(0, len(self.field) - width)
        base = Image.fromarray(self.patterns[label]).resize((width, height), Image.Resampling.BILINEAR)
        pixels = np.asarray(base, dtype=np.int16) + self.field[top : top + height, left : left + width]
        file = io.BytesIO()
        Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(file, "JPEG", quality=85)
        return file.getvalue()


class Shards:
    """Parquet files in the Hub's layout, written image by image."""

    def __init__(self, folder: Path, split: str, count: int, names: list[str]) -> None:
        import pyarrow as pa

        image = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
        features = {"image": {"_type": "Image"}, "label": {"names": names, "_type": "ClassLabel"}}
        told = json.dumps({"info": {"features": features}})
        self.schema = pa.schema([("image", image), ("label", pa.int64())], {"huggingface": told})
        self.folder, self.split, self.total = folder / "data", split, -(-count // SHARD)
        self.rows: list[dict] = []
        self.number = 0

    def add(self, data: bytes, path: str, label: int) -> None:
        self.rows.append({"image": {"bytes": data, "path": path}, "label": label})
        if len(self.rows) == SHARD:
            self.write()

    def write(self) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        if self.rows:
            self.folder.mkdir(parents=True, exist_ok=True)
            file = self.folder / f"{self.split}-{self.number:05d}-of-{self.total:05d}.parquet"
            pq.write_table(pa.Table.from_pylist(self.rows, self.schema), file, row_group_size=100)
            self.number, self.rows = self.number + 1, []


def write_split(folder: Path, split: str, here: str, count: int, names: list[str], painter: Painter) -> int:
    """Write a split in both layouts, in an order without runs of one class; return its bytes."""
    shards = Shards(folder / "parquet", split, count, names)
    size = 0
    for number in range(count):
        label = number % len(names)
        data = painter.paint(label, number if split == "train" else 10_000_000 + number)
        place = folder / "folders" / here / names[label]
        place.mkdir(parents=True, exist_ok=True)
        path = place / f"{names[label]}_{number}.JPEG"
        path.write_bytes(data)
        shards.add(data, path.name, label)
        size += len(data)
    shards.write()
    return size


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--train", type=int, default=20_000)
    parser.add_argument("--val", type=int, default=2_000)
    parser.add_argument("--classes", type=int, default=1_000)
    parser.add_argument("--sides", type=int, nargs=2, default=[200, 640], help="of the images, at most 1,199 pixels")
    given = parser.parse_args()
    names = [f"n{number:08d}" for number in range(given.classes)]
    painter, start = Painter(given.classes, tuple(given.sides)), time.perf_counter()
    size = sum(
        write_split(given.folder, split, here, count, names, painter)
        for split, here, count in (("train", "train", given.train), ("validation", "val", given.val))
    )
    count = given.train + given.val
    print(f"{count:,} images of {size / count / 1000:.0f} kB in {time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
