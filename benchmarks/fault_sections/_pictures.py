"""Small folders of pictures in the layouts that `opl` reads."""

from pathlib import Path

import numpy as np
from PIL import Image


def picture(seed: int, size: int = 16, mode: str = "RGB") -> Image.Image:
    """A random picture."""
    shape = (size, size, 3) if mode == "RGB" else (size, size)
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8), mode)


def domain_folder(folder: Path, *, seed: int = 0, domains: str = "ab", classes: int = 3, each: int = 6) -> None:
    """`<domain>/<class>/<picture>` with PNG pictures."""
    number = 1000 * seed
    for domain in domains:
        for label in range(classes):
            place = folder / domain / f"class-{label}"
            place.mkdir(parents=True)
            for index in range(each):
                picture(number).save(place / f"{index}.png")
                number += 1
