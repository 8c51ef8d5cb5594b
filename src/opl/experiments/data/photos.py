"""Augmentation of small photographs: the settings that CIFAR and the few-shot data sets share."""

from dataclasses import dataclass
from typing import Annotated, NamedTuple

from ..._ranges import Fraction, Range
from ..types import Augmentation
from .augment import (
    ColorJitter,
    Flip,
    PadCrop,
)


class AugmentationSteps(NamedTuple):
    """One augmentation per step; empty if the step is disabled."""

    crop: tuple[Augmentation, ...]
    flip: tuple[Augmentation, ...]
    jitter: tuple[Augmentation, ...]


@dataclass(frozen=True)
class PhotoAugmentation:
    """Crop, flip and jitter; each data set chooses the order."""

    padding: Annotated[int, Range(0, 256)] = 4
    """Zero-pad by this many pixels and crop at a random position; 0 disables it."""
    flip: Fraction = 0.5
    """Probability of a horizontal flip."""
    jitter: Fraction = 0.4
    """Strength of brightness, contrast and saturation jitter; 0 disables it."""

    @property
    def steps(self) -> AugmentationSteps:
        """The augmentations of each step; empty if the step is disabled."""
        return AugmentationSteps(
            (PadCrop(self.padding),) if self.padding else (),
            (Flip(self.flip),) if self.flip else (),
            (ColorJitter(self.jitter, self.jitter, self.jitter),) if self.jitter else (),
        )
