"""Crops of pictures of any size, made while they are decoded: a box of the picture, resized to a square."""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

RATIO = (3 / 4, 4 / 3)
TRIES = 10


class Box(NamedTuple):
    """A part of a picture, in pixels."""

    left: float
    top: float
    width: float
    height: float


def random_box(width: int, height: int, draws: Sequence[Sequence[float]], least: float) -> Box:
    """Return a random part of a picture with at least the fraction `least` of its area, as in torchvision.

    `draws` are (10, 4) uniform numbers: of each attempt, those of its area, aspect ratio, top and left. If no attempt
    fits, it is the largest central part with an aspect ratio from 3/4 to 4/3.

    Example:
        >>> random_box(400, 300, [[1.0, 0.5, 0.0, 0.0]] * 10, 0.08)
        Box(left=0.0, top=0.0, width=400.0, height=300.0)
    """
    low, high = math.log(RATIO[0]), math.log(RATIO[1])
    for area, ratio, top, left in draws:
        pixels, aspect = width * height * (least + area * (1 - least)), math.exp(low + ratio * (high - low))
        wide, tall = round(math.sqrt(pixels * aspect)), round(math.sqrt(pixels / aspect))
        if 0 < wide <= width and 0 < tall <= height:
            return Box(math.floor(left * (width - wide + 1)), math.floor(top * (height - tall + 1)), wide, tall)
    wide = min(width, round(height * RATIO[1]))
    tall = min(height, round(width / RATIO[0]))
    return Box((width - wide) // 2, (height - tall) // 2, wide, tall)


def central_box(width: int, height: int, fraction: float) -> Box:
    """Return the central square whose side is a `fraction` of the shorter side.

    With 224/256 this is `Resize(256)` and `CenterCrop(224)` in one step.

    Example:
        >>> central_box(400, 300, 0.5)
        Box(left=125.0, top=75.0, width=150.0, height=150.0)
    """
    side = fraction * min(width, height)
    return Box((width - side) / 2, (height - side) / 2, side, side)


def decode_crop(data: bytes, box_of: Callable[[int, int], Box], size: int, mode: str, draft: bool = True) -> Any:
    """Decode a picture and return a part of it, resized to (size, size, channels) uint8: bilinear and antialiased.

    Args:
        data: the encoded picture.
        box_of: returns the part, given the picture's width and height.
        size: height and width of the result.
        mode: Pillow's `L` or `RGB`.
        draft: let JPEGs be decoded at a half, a quarter or an eighth of their size if the part is still large enough.
    """
    from PIL import Image

    from .read.decode import open_picture, to_mode

    with open_picture(data) as picture:
        width, height = picture.size
        left, top, wide, tall = box_of(width, height)
        if draft:
            picture.draft(mode, (max(1, int(width * size / wide)), max(1, int(height * size / tall))))
        across, down = picture.width / width, picture.height / height
        box = (
            left * across,
            top * down,
            min(picture.width, (left + wide) * across),
            min(picture.height, (top + tall) * down),
        )
        resized = to_mode(picture, mode).resize((size, size), Image.Resampling.BILINEAR, box=box)
    return np.asarray(resized).reshape(size, size, -1)
