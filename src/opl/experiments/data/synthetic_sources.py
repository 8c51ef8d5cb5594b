"""Synthetic sources in the form of Meta-Dataset, for smoke tests: one pattern per class, with colors of the source."""

from dataclasses import dataclass
from typing import Annotated

import torch
import torch.nn.functional as F

from ..._ranges import NotNegative, Range
from ..seeds import mix
from ..types import Images, Splits, empty_part
from .few_shot import check_part
from .meta_dataset import MetaDataSet
from .meta_episodes import Hierarchy

PARTS = ("train", "val", "test")


@dataclass(frozen=True)
class SyntheticSource(MetaDataSet):
    """Synthetic images of a source; the numbers mean nothing.

    A class is a coarse pattern of light and dark; all classes of a source share a pair of colors. Its name determines
    patterns and colors. The test classes of a source whose name begins with 'omniglot' are related in halves.
    """

    classes: Annotated[int, Range(2, 10**4)] = 6
    """Training classes; there are as many for validation, and twice as many for testing."""
    images: Annotated[int, Range(4, 10**5)] = 16
    """Images of each class, from 8 fewer to 8 more in the test classes."""
    noise: NotNegative = 0.1
    """Standard deviation of the noise; the patterns range from 0 to 1."""

    @property
    def name(self) -> str:
        """The name of the source with the prefix `synthetic-`."""
        return f"synthetic-{self.source}"

    @property
    def num_classes(self) -> int:
        """Number of training classes."""
        return self.classes

    def load(self, seed: int) -> Splits:
        """Generate the training classes, the same for every `seed`; a quarter of the images is for testing."""
        self.check()
        images, names = self._part("train", torch.full((self.classes,), self.images))
        held = torch.arange(len(images)) % 4 == 3
        train = Images(images.pixels, images.labels, (~held).nonzero().flatten())
        test = Images(images.pixels, images.labels, held.nonzero().flatten())
        return Splits(train, empty_part(train), test, names, "synthetic")

    def novel_classes(self, part: str = "test") -> tuple[Images, tuple[str, ...]]:
        """Generate the classes of another part, numbered from 0, and their names; always the same."""
        check_part(part)
        self.check()
        count = 2 * self.classes if part == "test" else self.classes
        least = max(4, self.images - 8)
        return self._part(part, least + torch.arange(count) * 5 % (self.images + 9 - least))

    def hierarchy(self, part: str) -> Hierarchy | None:
        """Return two halves for a source like Omniglot; None for others."""
        if not self.source.startswith("omniglot"):
            return None
        count = 2 * self.classes if part == "test" else self.classes
        return Hierarchy((tuple(range(count // 2)), tuple(range(count // 2, count))))

    def _part(self, part: str, counts: torch.Tensor) -> tuple[Images, tuple[str, ...]]:
        chance = torch.Generator().manual_seed(mix(PARTS.index(part), *self.source.encode()))
        colors = torch.Generator().manual_seed(mix(*self.source.encode()))
        dark, light = (torch.rand(3, 1, 1, generator=colors) * 0.4 + start for start in (0.0, 0.6))
        labels = torch.arange(len(counts)).repeat_interleave(counts)
        coarse = torch.rand(len(counts), 1, 4, 4, generator=chance)
        patterns = F.interpolate(coarse, size=(self.size, self.size), mode="bilinear")
        images = dark + (light - dark) * patterns[labels]
        images += torch.randn(images.shape, generator=chance) * self.noise
        pixels = images.clamp(0, 1).mul(255).round().to(torch.uint8)
        names = tuple(f"{self.source} {part} class {number}" for number in range(len(counts)))
        return Images(pixels, labels, torch.arange(len(labels))), names
