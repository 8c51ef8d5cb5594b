"""CIFAR with the augmentation of speed-runs: small images first, and each image flipped in every second epoch."""

from dataclasses import dataclass
from typing import Annotated

from ..._ranges import Fraction, Pixels, Range
from ..types import Augmentation
from .augment import ReflectCrop
from .cifar import Cifar10, Cifar100

SIZES = ((0.15, 20), (0.5, 24))


@dataclass(frozen=True)
class _Fast:
    """Settings that both share; crop, flip and jitter of CIFAR are replaced."""

    shift: Annotated[int, Range(0, 15)] = 2
    """Pixels of a random shift; the border is reflected."""
    alternate: bool = True
    """Flip a random half of the images in even epochs, and the other half in odd ones."""
    sizes: tuple[tuple[Fraction, Pixels], ...] = SIZES
    """Up to each of these parts of training, images are reduced to this size."""

    @property
    def augment(self) -> tuple[Augmentation, ...]:
        """A random shift."""
        return (ReflectCrop(self.shift),) if self.shift else ()

    @property
    def alternate_flip(self) -> bool:
        """Whether images are flipped in every second epoch."""
        return self.alternate

    @property
    def growing_sizes(self) -> tuple[tuple[float, int], ...]:
        """Parts of training, and the size of images up to each."""
        return self.sizes


@dataclass(frozen=True)
class FastCifar100(_Fast, Cifar100):
    """CIFAR-100 for few epochs: shifted, flipped in turns, and small at first."""


@dataclass(frozen=True)
class FastCifar10(_Fast, Cifar10):
    """CIFAR-10 for few epochs: shifted, flipped in turns, and small at first."""
