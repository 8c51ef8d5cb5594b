"""Synthetic images with domains, for smoke tests: one pattern per class, with different colors in each domain."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
import torch.nn.functional as F

from ..._ranges import NotNegative, Pixels, Range
from ...errors import OptionError, did_you_mean
from ..types import Augmentation, DataSet, Images, Splits
from .domains import PACS, augmentation


@dataclass(frozen=True)
class SyntheticDomains(DataSet):
    """Synthetic images in the shape of PACS, with its classes and domains; the numbers mean nothing.

    A class is a pattern of light and dark, and a domain is the pair of colors it is drawn in, so that a network can
    learn the patterns and recognize them in another domain.
    """

    target: str = "photo"
    """The domain that is excluded from training and validation and used for testing."""
    size: Pixels = 32
    """Height and width of the images."""
    rows: Annotated[int, Range(1, 10**6)] = 42
    """Training images per domain; 14 more are for validation. The target's images, 56 by default, are for testing."""
    balance_domains: bool = False
    """Draw equally many images of each domain into every batch."""
    mirror_batches: bool = False
    """Train on every batch together with its mirror images."""
    noise: NotNegative = 0.1
    """Standard deviation of the noise; the patterns range from 0 to 1."""

    name: ClassVar[str] = "synthetic-pacs"
    channels: ClassVar[int] = 3
    num_classes: ClassVar[int] = 7
    mean: ClassVar[tuple[float, ...]] = (0.485, 0.456, 0.406)
    std: ClassVar[tuple[float, ...]] = (0.229, 0.224, 0.225)

    @property
    def augment(self) -> tuple[Augmentation, ...]:
        """The augmentations of PACS."""
        return augmentation(self.size, 0.8, 0.5, 0.4, 0.1)

    def check(self) -> None:
        """Raise an error for a target that is no domain."""
        if self.target not in PACS:
            raise OptionError(did_you_mean("domain", self.target, PACS))

    def load(self, seed: int) -> Splits:
        """Generate the data, which is the same for every `seed`."""
        self.check()
        names = tuple(PACS)
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
