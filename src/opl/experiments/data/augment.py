"""Augmentations of whole batches, on any device, from an explicit generator.

Each is a frozen value called as `augmentation(images, generator)` on (B, C, H, W) floats in [0, 1]. Chance is drawn on
the CPU, so that every device gets the same; and for the whole global batch, so that a process that holds only its
`rows` of `total` images makes of them exactly what one process would: `augmentation(mine, generator, rows, total)`.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor

from ...errors import OptionError

Rows = slice | Tensor  # some of a batch: a stretch of it, or any places in it


@dataclass(frozen=True)
class PadCrop:
    """Zeros all around, then a crop of the old size at a random place."""

    padding: int = 4

    def __call__(
        self, images: Tensor, generator: torch.Generator, rows: Rows | None = None, total: int | None = None
    ) -> Tensor:
        """Shift each image by its own offsets; what moves in is black."""
        rows, total = _place(images, rows, total)
        offsets = torch.randint(2 * self.padding + 1, (total, 2), generator=generator)[rows].to(images.device)
        height, width = images.shape[2:]
        padded = F.pad(images, (self.padding,) * 4)
        windows = padded.unfold(2, height, 1).unfold(3, width, 1)  # every crop there is, as a view
        return windows[torch.arange(len(images), device=images.device), :, offsets[:, 0], offsets[:, 1]]


@dataclass(frozen=True)
class Flip:
    """Left becomes right, with probability `p`."""

    p: float = 0.5

    def __call__(
        self, images: Tensor, generator: torch.Generator, rows: Rows | None = None, total: int | None = None
    ) -> Tensor:
        """Flip each image or not."""
        rows, total = _place(images, rows, total)
        chosen = (torch.rand(total, generator=generator) < self.p)[rows].to(images.device)
        return torch.where(chosen[:, None, None, None], images.flip(3), images)


@dataclass(frozen=True)
class ColorJitter:
    """Brightness, contrast and saturation times factors in [max(0, 1 - x), 1 + x], each image its own; and its hue
    turned by up to `hue` of a full circle, either way.

    In torchvision's formulas: a blend with black, with the mean of the gray image, with the gray image, cut to [0, 1]
    after each; the hue of HSV. The order is random, one order for a batch.
    """

    brightness: float = 0.4
    contrast: float = 0.4
    saturation: float = 0.4
    hue: float = 0.0

    def __call__(
        self, images: Tensor, generator: torch.Generator, rows: Rows | None = None, total: int | None = None
    ) -> Tensor:
        """Jitter each image; gray images (C = 1) have neither saturation nor hue."""
        rows, total = _place(images, rows, total)
        kinds = 4 if self.hue else 3  # without hue, chance is what it was before there was one
        draws = torch.rand(total, kinds, generator=generator)[rows]
        for which in torch.randperm(kinds, generator=generator).tolist():
            strength = (self.brightness, self.contrast, self.saturation, self.hue)[which]
            if strength:
                low, high = (-strength, strength) if which == 3 else (max(0.0, 1 - strength), 1 + strength)
                factors = (low + draws[:, which] * (high - low)).to(images.device, images.dtype)
                images = (brighten, contrast, saturate, turn_hue)[which](images, factors)
        return images


@dataclass(frozen=True)
class Grayscale:
    """The gray image in all three channels, with probability `p`."""

    p: float = 0.1

    def __call__(
        self, images: Tensor, generator: torch.Generator, rows: Rows | None = None, total: int | None = None
    ) -> Tensor:
        """Gray each image or not."""
        rows, total = _place(images, rows, total)
        chosen = (torch.rand(total, generator=generator) < self.p)[rows].to(images.device)
        return torch.where(chosen[:, None, None, None], grayscale(images), images)


@dataclass(frozen=True)
class QuarterTurns:
    """A rotation by 0, 90, 180 or 270 degrees, counter-clockwise."""

    def draw(self, generator: torch.Generator, total: int) -> Tensor:
        """The number of quarter turns of each image; with `rotate`, for a method that must know them."""
        return torch.randint(4, (total,), generator=generator)

    def __call__(
        self, images: Tensor, generator: torch.Generator, rows: Rows | None = None, total: int | None = None
    ) -> Tensor:
        """Turn each image."""
        rows, total = _place(images, rows, total)
        return rotate(images, self.draw(generator, total)[rows])


@dataclass(frozen=True)
class RandomResizedCrop:
    """A crop of random area and shape, resized to `size` x `size` (bilinear, without antialiasing).

    As torchvision's: ten tries at a crop that fits, the ratio of its sides uniform in the logarithm; failing all, the
    largest central crop whose ratio is in range.
    """

    size: int
    scale: tuple[float, float] = (0.08, 1.0)
    ratio: tuple[float, float] = (3 / 4, 4 / 3)

    def __call__(
        self, images: Tensor, generator: torch.Generator, rows: Rows | None = None, total: int | None = None
    ) -> Tensor:
        """Crop each image."""
        rows, total = _place(images, rows, total)
        boxes = self.draw(generator, total, images.shape[2], images.shape[3])[rows].to(images.device)
        return crop_resize(images, boxes, self.size)

    def draw(self, generator: torch.Generator, total: int, height: int, width: int) -> Tensor:
        """The crops, (total, 4): top, left, height, width, in whole pixels."""
        draws = torch.rand(total, 10, 4, generator=generator, dtype=torch.float64)
        area = height * width * (self.scale[0] + draws[..., 0] * (self.scale[1] - self.scale[0]))
        low, high = math.log(self.ratio[0]), math.log(self.ratio[1])
        ratio = (low + draws[..., 1] * (high - low)).exp()
        wide, tall = (area * ratio).sqrt().round(), (area / ratio).sqrt().round()
        fits = (wide >= 1) & (wide <= width) & (tall >= 1) & (tall <= height)
        top, left = (draws[..., 2] * (height - tall + 1)).floor(), (draws[..., 3] * (width - wide + 1)).floor()
        tries = torch.stack([top, left, tall, wide], dim=2)
        first = tries[torch.arange(total), fits.int().argmax(1)]
        return torch.where(fits.any(1)[:, None], first, self._central(height, width)).long()

    def _central(self, height: int, width: int) -> Tensor:
        wide, tall = width, height
        if width / height < self.ratio[0]:
            tall = round(width / self.ratio[0])
        elif width / height > self.ratio[1]:
            wide = round(height * self.ratio[1])
        return torch.tensor([(height - tall) // 2, (width - wide) // 2, tall, wide], dtype=torch.float64)


@dataclass(frozen=True)
class Normalize:
    """`(images - mean) / std`, channel by channel; draws nothing."""

    mean: tuple[float, ...]
    std: tuple[float, ...]

    def __call__(
        self, images: Tensor, generator: torch.Generator | None = None, rows: object = None, total: object = None
    ) -> Tensor:
        """Normalize each image."""
        if not len(self.mean) == len(self.std) == images.shape[1]:
            raise OptionError(
                f"images of {images.shape[1]} channels cannot be normalized with {len(self.mean)} means and "
                f"{len(self.std)} deviations: give one of each for every channel."
            )
        mean, std = (_channels(numbers, images.dtype, images.device) for numbers in (self.mean, self.std))
        return (images - mean).div_(std)


def brighten(images: Tensor, factors: Tensor) -> Tensor:
    """Blend each image with black: `factor * image`, cut to [0, 1]."""
    return (images * factors[:, None, None, None]).clamp_(0, 1)


def contrast(images: Tensor, factors: Tensor) -> Tensor:
    """Blend each image with the mean of its gray image, cut to [0, 1]."""
    factors = factors[:, None, None, None]
    middle = grayscale(images).mean((1, 2, 3), keepdim=True)
    return (images * factors).add_(middle * (1 - factors)).clamp_(0, 1)


def saturate(images: Tensor, factors: Tensor) -> Tensor:
    """Blend each image with its gray image, cut to [0, 1]."""
    if images.shape[1] == 1:
        return images
    factors = factors[:, None, None, None]
    return (images * factors).add_(grayscale(images).mul_(1 - factors)).clamp_(0, 1)


def turn_hue(images: Tensor, shifts: Tensor) -> Tensor:
    """Turn each image's hue by its own part of a full circle; brightness and saturation (of HSV) stay.

    Every channel is `max - (max - min) * w`, where w depends on the hue alone, so HSV is never written down.
    """
    if images.shape[1] == 1:
        return images
    red, green, blue = images.unbind(1)
    top, bottom = images.amax(1), images.amin(1)
    spread = top - bottom
    whole = spread.clamp(min=torch.finfo(images.dtype).tiny)  # no hue where all channels are equal: any will do
    of_others = torch.where(top == green, (blue - red) / whole + 2, (red - green) / whole + 4)
    sixth = torch.where(top == red, (green - blue) / whole, of_others) + 6 * shifts[:, None, None]
    channels = []
    for start in (5, 3, 1):
        place = (sixth + start).remainder(6)
        channels.append(top - spread * torch.minimum(place, 4 - place).clamp_(0, 1))
    return torch.stack(channels, 1)


def grayscale(images: Tensor) -> Tensor:
    """(B, 1, H, W): 0.299 red + 0.587 green + 0.114 blue, or what is gray already."""
    if images.shape[1] == 1:
        return images
    red, green, blue = images.unbind(1)
    return (red * 0.299).add_(green * 0.587).add_(blue * 0.114)[:, None]


def rotate(images: Tensor, turns: Tensor) -> Tensor:
    """Each (square) image by its own number of quarter turns, counter-clockwise: `torch.rot90`, in one gather."""
    side = images.shape[3]
    if images.shape[2] != side:
        raise OptionError(f"images of {images.shape[2]} x {side} cannot make quarter turns: give square ones.")
    places = torch.arange(side * side, device=images.device).view(side, side)
    turned = torch.stack([places.rot90(k).flatten() for k in range(4)])  # where each pixel comes from
    index = turned[turns.to(images.device)][:, None].expand(-1, images.shape[1], -1)
    return images.flatten(2).gather(2, index).view_as(images)


def crop_resize(images: Tensor, boxes: Tensor, size: int) -> Tensor:
    """Each image's own box (top, left, height, width) as `size` x `size`: `F.interpolate(crop, mode="bilinear")`."""
    height, width = images.shape[2:]
    box = boxes.to(images.dtype)
    places = (torch.arange(size, device=images.device, dtype=images.dtype) + 0.5) / size

    def along(start: Tensor, length: Tensor, limit: int) -> Tensor:
        pixel = (places * length[:, None] - 0.5).clamp_(min=0).minimum(length[:, None] - 1) + start[:, None]
        return pixel * (2 / max(limit - 1, 1)) - 1

    rows, columns = along(box[:, 0], box[:, 2], height), along(box[:, 1], box[:, 3], width)
    grid = torch.stack([columns[:, None, :].expand(-1, size, -1), rows[:, :, None].expand(-1, -1, size)], dim=3)
    return F.grid_sample(images, grid, mode="bilinear", padding_mode="border", align_corners=True)


def _place(images: Tensor, rows: Rows | None, total: int | None) -> tuple[Rows, int]:
    """Which rows of how many these images are; all of them, if nothing else was said."""
    if rows is None and total is None:
        return slice(None), len(images)
    given = len(rows) if isinstance(rows, Tensor) else len(range(total or 0)[rows or slice(0)])
    if rows is None or total is None or given != len(images):
        raise OptionError(
            f"{len(images)} images are not the rows {rows} of a batch of {total}: give the slice (or the places) of "
            "the global batch that they are, and its size, or neither."
        )
    return rows, total


@lru_cache(maxsize=64)
def _channels(numbers: tuple[float, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    with torch.inference_mode(False):  # kept for later, when it may have to take part in a derivative
        return torch.tensor(numbers, dtype=dtype, device=device).view(-1, 1, 1)
