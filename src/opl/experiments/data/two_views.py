"""Data for self-supervision: every batch has two independently augmented views of each image.

The augmentations are those of SimCLR on CIFAR: random resized crops, flips, color jitter and grayscale. Every image is
jittered, where SimCLR leaves out a fifth.
"""

from dataclasses import dataclass
from typing import ClassVar

from ..types import Augmentation
from .augment import ColorJitter, Flip, Grayscale, RandomResizedCrop
from .small_images import Cifar10
from .synthetic import Synthetic


class _TwoViews:
    """Two views of each image, small at first; it comes before a data set in the list of base classes."""

    views: ClassVar[int] = 2
    augment: ClassVar[tuple[Augmentation, ...]] = (
        RandomResizedCrop(32, scale=(0.2, 1.0)),
        Flip(),
        ColorJitter(0.4, 0.4, 0.4, 0.1),
        Grayscale(0.2),
    )
    growing_sizes: ClassVar[tuple[tuple[float, int], ...]] = ((0.15, 20), (0.5, 24))


@dataclass(frozen=True)
class TwoViewsCifar10(_TwoViews, Cifar10):
    """CIFAR-10 with two views of each training image."""


@dataclass(frozen=True)
class SyntheticTwoViews(_TwoViews, Synthetic):
    """Synthetic images with two views of each training image."""
