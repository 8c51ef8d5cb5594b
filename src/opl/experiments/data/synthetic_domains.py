"""Synthetic images with domains, for smoke runs: a pattern for each class, and in each domain other colors."""

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F

from ...errors import OptionError, did_you_mean
from ..types import Augmentation, DataSet, Images, Splits
from .domains import PACS, augmentation


@dataclass(frozen=True)
class SyntheticDomains(DataSet):
    """Synthetic images in the shape of PACS, with its classes and domains; its numbers mean nothing.

    A class is a pattern of light and dark, a domain the colors that it is painted in: a network can learn the one and
    find it again in the other.
    """

    target: str = "photo"
    """The domain that is left out of training and validation, and tested on."""
    size: int = 32
    """Height and width of the images."""
    rows: int = 42
    """Training images of each domain; 14 more are for validation, and the target has all 56 for testing."""
    balance_domains: bool = False
    """Draw as many images of each domain into every batch."""
    mirror_batches: bool = False
    """Train on every batch together with its mirror image."""
    noise: float = 0.1
    """Standard deviation of the noise; the patterns reach from 0 to 1."""

    name: ClassVar[str] = "synthetic-pacs"
    channels: ClassVar[int] = 3
    num_classes: ClassVar[int] = 7
    mean: ClassVar[tuple[float, ...]] = (0.485, 0.456, 0.406)
    std: ClassVar[tuple[float, ...]] = (0.229, 0.224, 0.225)

    @property
    def augment(self) -> tuple[Augmentation, ...]:
        """As that of PACS."""
        return augmentation(self.size, 0.8, 0.5, 0.4, 0.1)

    def load(self, seed: int) -> Splits:
        """Make it, always the same whatever `seed`."""
        names = tuple(PACS)
        if self.target not in names:
            raise OptionError(did_you_mean("domain", self.target, names))
        chance, each = torch.Generator().manual_seed(0), self.rows + 2 * self.num_classes
        labels = torch.arange(each * len(names)) % self.num_classes
        domains = torch.arange(len(labels)) // each
        coarse = torch.rand(self.num_classes, 1, 4, 4, generator=chance)
        patterns = F.interpolate((coarse + coarse.flip(3)) / 2, size=(self.size, self.size), mode="bilinear")
        dark, light = (torch.rand(len(names), 3, 1, 1, generator=chance) * 0.5 + start for start in (0.0, 0.5))
        images = dark[domains] + (light - dark)[domains] * patterns[labels]
        images += torch.randn(images.shape, generator=chance) * self.noise
        pixels = images.clamp(0, 1).mul(255).round().to(torch.uint8)
        target, held = domains == names.index(self.target), torch.arange(len(labels)) % each >= self.rows
        parts = (~target & ~held, ~target & held, target)
        train, val, test = (Images(pixels, labels, part.nonzero().flatten(), domains) for part in parts)
        classes = tuple(f"class {number}" for number in range(self.num_classes))
        return Splits(train, val, test, classes, "synthetic", domain_names=names)
