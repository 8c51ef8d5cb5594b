"""Folders of colored shapes, which a small network can learn to tell apart."""

from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from _image_files import encoded


def draw(kind: str, seed: int, size: tuple[int, int] = (16, 16), mode: str = "RGB") -> Image.Image:
    """A circle, square or stripe at a random place, in a random color; no two are the same."""
    chance = np.random.default_rng([seed, len(kind)])
    noise = chance.integers(0, 60, (size[1], size[0], 3), dtype=np.uint8)
    image = Image.fromarray(noise)
    pen = ImageDraw.Draw(image)
    side = min(size) // 2
    left, top = (int(chance.integers(0, edge - side)) for edge in size)
    color = tuple(chance.integers(150, 256, 3).tolist())
    box = (left, top, left + side, top + side)
    if kind == "circle":
        pen.ellipse(box, fill=color)
    elif kind == "square":
        pen.rectangle(box, fill=color)
    else:
        pen.line(box, fill=color, width=2)
    return image.convert(mode)


def shape_folder(folder: Path, counts: dict[str, int], size: tuple[int, int] = (16, 16), mode: str = "RGB") -> Path:
    """`<class>/<number>.png` for each class."""
    for kind, count in counts.items():
        (folder / kind).mkdir(parents=True, exist_ok=True)
        for number in range(count):
            (folder / kind / f"{number:03d}.png").write_bytes(encoded(draw(kind, number, size, mode)))
    return folder
