"""Augmentations of whole batches, on any device, from an explicit generator.

Each is a frozen value called as `augmentation(images, generator)` on (B, C, H, W) floats in [0, 1]. Random numbers are
drawn on the CPU, so that every device gets the same ones, and for the whole global batch, so that a process that holds
only the `rows` of a batch of `total` images transforms them exactly as a single process would:
`augmentation(shard, generator, rows, total)`.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from ...errors import OptionError
from ..types import Augmentation

Rows = slice | Tensor  # part of a batch: a contiguous slice, or any indices
LARGE = 1 << 15  # values per image from which copies of whole batches would fragment the memory of the process


class _Transform:
    """Base class of random transforms, which determines the rows of the global batch that some images are."""

    def __call__(
        self, images: Tensor, generator: torch.Generator, rows: Rows | None = None, total: int | None = None
    ) -> Tensor:
        """Transform the `rows` of a global batch of `total` images; by default the images are the whole batch."""
        if rows is None and total is None:
            rows, total = slice(None), len(images)
        given = len(rows) if isinstance(rows, Tensor) else len(range(total or 0)[rows or slice(0)])
        if rows is None or total is None or given != len(images):
            raise OptionError(
                f"{len(images)} images are not the rows {rows} of a batch of {total}: give the rows of the global "
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
        for which in torch.randperm(kinds, generator=generator).tolist():
            strength = (self.brightness, self.contrast, self.saturation, self.hue)[which]
            if strength:
                low, high = (-strength, strength) if which == 3 else (max(0.0, 1 - strength), 1 + strength)
                factors = (low + draws[:, which] * (high - low)).to(images.device, images.dtype)
                images = (brighten, contrast, saturate, turn_hue)[which](images, factors)
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
    """Crop a random area with a random aspect ratio, resized to `size` x `size` (bilinear, without antialiasing).

    As in torchvision: ten attempts at a crop that fits, with an aspect ratio that is uniform in its logarithm. If all
    fail, the largest central crop with an aspect ratio in range is used.
    """

    size: int
    scale: tuple[float, float] = (0.08, 1.0)
    ratio: tuple[float, float] = (3 / 4, 4 / 3)

    def transform(self, images: Tensor, generator: torch.Generator, rows: Rows, total: int) -> Tensor:
        """Crop and resize each image."""
        boxes = self.draw(generator, total, images.shape[2], images.shape[3])[rows].to(images.device)
        return crop_resize(images, boxes, self.size)

    def draw(self, generator: torch.Generator, total: int, height: int, width: int) -> Tensor:
        """Draw the crops, (total, 4): top, left, height and width, in whole pixels."""
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
                f"{len(self.std)} standard deviations: give one mean and one standard deviation per channel."
            )
        mean, std = (_channels(numbers, images.dtype, images.device) for numbers in (self.mean, self.std))
        return images.sub_(mean).div_(std)


def enabled(*steps: tuple[float, Augmentation]) -> tuple[Augmentation, ...]:
    """Return the augmentations whose strength, which is given first, is not 0."""
    return tuple(step for strength, step in steps if strength)


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


def crop_resize(images: Tensor, boxes: Tensor, size: int) -> Tensor:
    """Resize a box (top, left, height, width) of each image as `F.interpolate(crop, mode="bilinear")` would."""
    height, width = images.shape[2:]
    box = boxes.to(images.dtype)
    centers = (torch.arange(size, device=images.device, dtype=images.dtype) + 0.5) / size

    def along(start: Tensor, length: Tensor, limit: int) -> Tensor:
        pixel = (centers * length[:, None] - 0.5).clamp_(min=0).minimum(length[:, None] - 1) + start[:, None]
        return pixel * (2 / max(limit - 1, 1)) - 1

    rows, columns = along(box[:, 0], box[:, 2], height), along(box[:, 1], box[:, 3], width)
    grid = torch.stack([columns[:, None, :].expand(-1, size, -1), rows[:, :, None].expand(-1, -1, size)], dim=3)
    return F.grid_sample(images, grid, mode="bilinear", padding_mode="border", align_corners=True)


@lru_cache(maxsize=64)
def _channels(numbers: tuple[float, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    with torch.inference_mode(False):  # cached tensors may later take part in autograd
        return torch.tensor(numbers, dtype=dtype, device=device).view(-1, 1, 1)
