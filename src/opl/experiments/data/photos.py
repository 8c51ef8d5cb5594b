"""How small photographs are augmented: the settings that CIFAR and the few-shot data sets share."""

from dataclasses import dataclass
from typing import NamedTuple

from ..types import Augmentation
from .augment import (
    ColorJitter,
    Flip,
    PadCrop,
)


class AugmentationSteps(NamedTuple):
    """Each is one step, or none where it is switched off."""

    crop: tuple[Augmentation, ...]
    flip: tuple[Augmentation, ...]
    jitter: tuple[Augmentation, ...]


@dataclass(frozen=True)
class PhotoAugmentation:
    """Cropped, flipped and jittered; in which order is up to the data set."""

    padding: int = 4
    """Zero-pad by so much and crop at a random place; 0 does not."""
    flip: float = 0.5
    """Probability of a horizontal flip."""
    jitter: float = 0.4
    """Strength of the jitter of brightness, contrast and saturation; 0 does not."""

    @property
    def steps(self) -> AugmentationSteps:
        """What is done, each unless it is switched off."""
        return AugmentationSteps(
            (PadCrop(self.padding),) if self.padding else (),
            (Flip(self.flip),) if self.flip else (),
            (ColorJitter(self.jitter, self.jitter, self.jitter),) if self.jitter else (),
        )
