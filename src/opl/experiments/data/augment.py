"""Augmentations of whole batches, on any device, from an explicit generator.

Each is a frozen value called as `augmentation(images, generator)` on (B, C, H, W) floats in [0, 1]. Random numbers are
drawn on the CPU, so that every device gets the same ones, and for the whole global batch, so that a process that holds
only the `rows` of a batch of `total` images transforms them exactly as a single process would:
`augmentation(shard, generator, rows, total)`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from ...errors import OptionError
from ..types import Augmentation

Rows = slice | Tensor  # part of a batch: a contiguous slice, or any indices
RATIO = (3 / 4, 4 / 3)  # the aspect ratios of random crops
TRIES = 10  # attempts at a random crop
LARGE = 1 << 15  # values per image from which copies of whole batches would fragment the memory of the process


class _Transform:
    """Base class of random transforms, which checks which rows of the global batch the images are."""

    def __call__(
        self, images: Tensor, generator: torch.Generator, rows: Rows | None = None, total: int | None = None
    ) -> Tensor:
        """Transform the `rows` of a global batch of `total` images; by default the images are the whole batch."""
        if rows is None and total is None:
            rows, total = slice(None), len(images)
        count = len(rows) if isinstance(rows, Tensor) else len(range(total or 0)[rows or slice(0)])
        if rows is None or total is None or count != len(images):
            raise OptionError(
                f"{len(images)} images are not the rows {rows} of a batch of {total}: pass the rows of the global "
                "batch (a slice or indices) and its size, or neither."
            )
        return self.transform(images, generator, rows, total)

    def transform(self, images: Tensor, generator: torch.Generator, rows: Rows, total: int) -> Tensor:
        """Transform the images with their part of the random numbers, which are drawn for the whole batch."""
        raise NotImplementedError(f"{type(self).__name__} has no transform: define it in the class.")


@dataclass(frozen=True)
class _Crop(_Transform):
    """Base class of crops: pad on all sides, then crop to the original size at a random position."""

    padding: int
    mode: ClassVar[str]

    def transform(self, images: Tensor, generator: torch.Generator, rows: Rows, total: int) -> Tensor:
        """Shift each image by its own random offsets."""
        height, width = images.shape[2:]
        padded = F.pad(images, (self.padding,) * 4, mode=self.mode)
        offsets = torch.randint(2 * self.padding + 1, (total, 2), generator=generator)[rows].to(images.device)
        windows = padded.unfold(2, height, 1).unfold(3, width, 1)  # all possible crops, as a view
        return windows[torch.arange(len(images), device=images.device), :, offsets[:, 0], offsets[:, 1]]


@dataclass(frozen=True)
class PadCrop(_Crop):
    """Pad with zeros on all sides, then crop to the original size at a random position."""

    padding: int = 4
    mode: ClassVar[str] = "constant"


@dataclass(frozen=True)
class ReflectCrop(_Crop):
    """Reflect the border on all sides, then crop to the original size at a random position."""

    padding: int = 2
    mode: ClassVar[str] = "reflect"


@dataclass(frozen=True)
class Flip(_Transform):
    """Flip images horizontally with probability `p`."""

    p: float = 0.5

    def transform(self, images: Tensor, generator: torch.Generator, rows: Rows, total: int) -> Tensor:
        """Flip each image with probability `p`."""
        chosen = (torch.rand(total, generator=generator) < self.p)[rows]
        if images.is_cpu and images[:1].numel() >= LARGE:
            flipped = images.clone()
            for index in chosen.nonzero().flatten().tolist():
                flipped[index] = images[index].flip(2)
            return flipped
        return torch.where(chosen.to(images.device)[:, None, None, None], images.flip(3), images)


@dataclass(frozen=True)
class ColorJitter(_Transform):
    """Jitter brightness, contrast, saturation and hue, with random factors for each image.

    Brightness, contrast and saturation are multiplied by factors in [max(0, 1 - x), 1 + x]; the hue is shifted by up to
    `hue` of a full circle in either direction. The formulas are torchvision's: a blend with black, with the mean of the
    grayscale image, or with the grayscale image, each clamped to [0, 1], and the hue of HSV. The order of the
    operations is random, and the same for the whole batch.
    """

    brightness: float = 0.4
    contrast: float = 0.4
    saturation: float = 0.4
    hue: float = 0.0

    def transform(self, images: Tensor, generator: torch.Generator, rows: Rows, total: int) -> Tensor:
        """Jitter each image; grayscale images (C = 1) have neither saturation nor hue."""
        kinds = 4 if self.hue else 3  # without hue, draw the same random numbers as before hue was added
        draws = torch.rand(total, kinds, generator=generator)[rows]
        for kind in torch.randperm(kinds, generator=generator).tolist():
            strength = (self.brightness, self.contrast, self.saturation, self.hue)[kind]
            if strength:
                low, high = (-strength, strength) if kind == 3 else (max(0.0, 1 - strength), 1 + strength)
                factors = (low + draws[:, kind] * (high - low)).to(images.device, images.dtype)
                images = (brighten, contrast, saturate, turn_hue)[kind](images, factors)
        return images


@dataclass(frozen=True)
class Grayscale(_Transform):
    """Replace all three channels by the grayscale image, with probability `p`."""

    p: float = 0.1

    def transform(self, images: Tensor, generator: torch.Generator, rows: Rows, total: int) -> Tensor:
        """Convert each image to grayscale with probability `p`."""
        chosen = (torch.rand(total, generator=generator) < self.p)[rows].to(images.device)
        return torch.where(chosen[:, None, None, None], grayscale(images), images)


@dataclass(frozen=True)
class RandomResizedCrop(_Transform):
    """Crop a random region, resized to `size` x `size` (bilinear, without antialiasing); see `random_box`."""

    size: int
    least: float = 0.08
    """The smallest fraction of an image's area that is taken."""

    def transform(self, images: Tensor, generator: torch.Generator, rows: Rows, total: int) -> Tensor:
        """Crop and resize each image."""
        height, width = images.shape[2:]
        boxes = [random_box(width, height, draws, self.least) for draws in draw_crops(total, generator)[rows].tolist()]
        return crop_resize(images, torch.tensor(boxes, device=images.device).view(-1, 4), self.size)


@dataclass(frozen=True)
class Normalize:
    """Compute `(images - mean) / std` for each channel; nothing is random."""

    mean: tuple[float, ...]
    std: tuple[float, ...]

    def __call__(self, images: Tensor) -> Tensor:
        """Normalize each image."""
        return self.in_place(images.clone())

    def in_place(self, images: Tensor) -> Tensor:
        """Normalize images in place."""
        if not len(self.mean) == len(self.std) == images.shape[1]:
            raise OptionError(
                f"images of {images.shape[1]} channels cannot be normalized with {len(self.mean)} means and "
                f"{len(self.std)} standard deviations: pass one mean and one standard deviation per channel."
            )
        mean, std = (_channels(numbers, images.dtype, images.device) for numbers in (self.mean, self.std))
        return images.sub_(mean).div_(std)


def enabled(*steps: Augmentation) -> tuple[Augmentation, ...]:
    """Return the augmentations that change images: those whose settings are not all 0.

    Example:
        >>> enabled(PadCrop(4), Flip(0.0), ColorJitter(0, 0, 0))
        (PadCrop(padding=4),)
    """
    return tuple(step for step in steps if any(vars(step).values()))


def brighten(images: Tensor, factors: Tensor) -> Tensor:
    """Blend each image with black: `factor * image`, clamped to [0, 1]."""
    return (images * factors[:, None, None, None]).clamp_(0, 1)


def contrast(images: Tensor, factors: Tensor) -> Tensor:
    """Blend each image with the mean of its grayscale image, clamped to [0, 1]."""
    factors = factors[:, None, None, None]
    middle = grayscale(images).mean((1, 2, 3), keepdim=True)
    return (images * factors).add_(middle * (1 - factors)).clamp_(0, 1)


def saturate(images: Tensor, factors: Tensor) -> Tensor:
    """Blend each image with its grayscale image, clamped to [0, 1]."""
    if images.shape[1] == 1:
        return images
    factors = factors[:, None, None, None]
    return (images * factors).add_(grayscale(images).mul_(1 - factors)).clamp_(0, 1)


def turn_hue(images: Tensor, shifts: Tensor) -> Tensor:
    """Shift the hue of each image by its own fraction of a full circle; HSV value and saturation are unchanged.

    Every channel is `max - (max - min) * w`, where w depends only on the hue, so that no conversion to HSV is needed.
    """
    if images.shape[1] == 1:
        return images
    red, green, blue = images.unbind(1)
    top, bottom = images.amax(1), images.amin(1)
    spread = top - bottom
    whole = spread.clamp(min=torch.finfo(images.dtype).tiny)  # where all channels are equal, any hue works
    of_others = torch.where(top == green, (blue - red) / whole + 2, (red - green) / whole + 4)
    sixth = torch.where(top == red, (green - blue) / whole, of_others) + 6 * shifts[:, None, None]
    channels = []
    for start in (5, 3, 1):
        sector = (sixth + start).remainder(6)
        channels.append(top - spread * torch.minimum(sector, 4 - sector).clamp_(0, 1))
    return torch.stack(channels, 1)


def grayscale(images: Tensor) -> Tensor:
    """Convert to grayscale, (B, 1, H, W): 0.299 red + 0.587 green + 0.114 blue; grayscale images are returned as is."""
    if images.shape[1] == 1:
        return images
    red, green, blue = images.unbind(1)
    return (red * 0.299).add_(green * 0.587).add_(blue * 0.114)[:, None]


# Crops


class Box(NamedTuple):
    """A region of an image, in pixels."""

    left: float
    top: float
    width: float
    height: float


def draw_crops(total: int, generator: torch.Generator) -> Tensor:
    """Draw the random numbers of crops for `random_box`, (total, 10, 4)."""
    return torch.rand(total, TRIES, 4, generator=generator, dtype=torch.float64)


def random_box(width: int, height: int, draws: Sequence[Sequence[float]], least: float) -> Box:
    """Return a random region with at least the fraction `least` of the image's area, as in torchvision.

    `draws` are (10, 4) uniform numbers: area, aspect ratio (uniform in its logarithm), top and left of each attempt. If
    no attempt fits, the result is the largest central region with an aspect ratio from 3/4 to 4/3.

    Example:
        >>> random_box(400, 300, [[1.0, 0.5, 0.0, 0.0]] * 10, 0.08)
        Box(left=0, top=0, width=400, height=300)
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


def central_box(width: int, height: int, fraction: float = 1.0) -> Box:
    """Return the central square whose side is a `fraction` of the shorter side.

    With 224/256 this is `Resize(256)` and `CenterCrop(224)` in one step.

    Example:
        >>> central_box(400, 300, 0.5)
        Box(left=125.0, top=75.0, width=150.0, height=150.0)
    """
    side = fraction * min(width, height)
    return Box((width - side) / 2, (height - side) / 2, side, side)


def crop_resize(images: Tensor, boxes: Tensor, size: int) -> Tensor:
    """Resize a box (left, top, width, height) of each image as `F.interpolate(crop, mode="bilinear")` would."""
    height, width = images.shape[2:]
    box = boxes.to(images.dtype)
    centers = (torch.arange(size, device=images.device, dtype=images.dtype) + 0.5) / size

    def along(start: Tensor, length: Tensor, limit: int) -> Tensor:
        pixel = (centers * length[:, None] - 0.5).clamp_(min=0).minimum(length[:, None] - 1) + start[:, None]
        return pixel * (2 / max(limit - 1, 1)) - 1

    rows, columns = along(box[:, 1], box[:, 3], height), along(box[:, 0], box[:, 2], width)
    grid = torch.stack([columns[:, None, :].expand(-1, size, -1), rows[:, :, None].expand(-1, -1, size)], dim=3)
    return F.grid_sample(images, grid, mode="bilinear", padding_mode="border", align_corners=True)


@lru_cache(maxsize=64)
def _channels(numbers: tuple[float, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    with torch.inference_mode(False):  # cached tensors may later take part in autograd
        return torch.tensor(numbers, dtype=dtype, device=device).view(-1, 1, 1)
