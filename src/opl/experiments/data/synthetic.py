"""Synthetic images in the shape of a real data set."""

from dataclasses import dataclass
from typing import Annotated, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from ..._ranges import CountOrZero, NotNegative, Range, check_settings
from ...errors import OptionError, did_you_mean
from ..types import Augmentation, DataSet, Images, Splits
from .cifar import Cifar10, Cifar100
from .digits import Digits
from .few_shot import CifarFS, FewShot, MiniImageNet, TieredImageNet, check_part
from .file_data_set import FileDataSet, check_classes
from .mnist import FashionMnist, Mnist
from .read.catalog import CATALOG


@dataclass(frozen=True)
class Synthetic(DataSet):
    """Synthetic images with the shape and classes of a data set: one pattern per class, plus noise.

    They allow a smoke test to learn something within seconds; its numbers mean nothing. Like the few-shot data sets
    they include novel classes, 16 for validation and 20 for testing.
    """

    like: Literal[
        "mnist", "fashion-mnist", "cifar10", "cifar100", "digits", "cifar-fs", "mini-imagenet", "tiered-imagenet"
    ] = "digits"
    """The data set whose shape, classes, normalization and augmentation are copied."""
    root: str = ""
    """Unused: nothing is read."""
    rows: Annotated[int, Range(1, 10**6)] = 256
    """Number of training images."""
    val: Annotated[int, Range(0, 10**6)] = 64
    """Number of validation images."""
    test: Annotated[int, Range(0, 10**6)] = 128
    """Number of test images."""
    classes: CountOrZero = 0
    """Use only this many classes; 0 uses all."""
    noise: NotNegative = 0.1
    """Standard deviation of the noise; the patterns range from 0 to 1."""
    per_new_class: Annotated[int, Range(1, 10**6)] = 20
    """Images of each novel class; 20 allow for 5 shots and 15 queries."""
    pixels: Annotated[int, Range(0, 4096)] = 0
    """Height and width of the images; 0 uses those of the copied data set."""

    @property
    def _model(self) -> "FileDataSet | Digits | FewShot":
        if self.like not in _LIKE:
            raise OptionError(did_you_mean("data set", self.like, _LIKE))
        return _LIKE[self.like]

    @property
    def name(self) -> str:
        """The name of the copied data set with the prefix `synthetic-`."""
        return f"synthetic-{self.like}"

    @property
    def channels(self) -> int:
        """Channels, as in the copied data set."""
        return self._model.channels

    @property
    def size(self) -> int:
        """Height and width, as in the copied data set unless `pixels` says otherwise."""
        return self.pixels or self._model.size

    @property
    def num_classes(self) -> int:
        """Number of classes after class selection."""
        return self.classes or self._model.num_classes

    @property
    def mean(self) -> tuple[float, ...]:
        """Mean of each channel, as in the copied data set."""
        return self._model.mean

    @property
    def std(self) -> tuple[float, ...]:
        """Standard deviation of each channel, as in the copied data set."""
        return self._model.std

    @property
    def augment(self) -> tuple[Augmentation, ...]:
        """The augmentations of the copied data set."""
        return self._model.augment

    def check(self) -> None:
        """Raise an error for more classes than the copied data set has."""
        check_settings(self, "data.")
        check_classes(self.name, self.classes, self._model.num_classes)

    def load(self, seed: int) -> Splits:
        """Generate the data, which is the same for every `seed`."""
        self.check()
        count = self.rows + self.val + self.test
        labels = torch.arange(count) % self.num_classes
        pixels = self._pixels(labels, self.num_classes, torch.Generator().manual_seed(0))
        cuts = torch.tensor([self.rows, self.rows + self.val])
        train, val, test = (Images(pixels, labels, rows) for rows in torch.arange(count).tensor_split(cuts))
        known = CATALOG[self.like].names if self.like in CATALOG else ()
        names = known or tuple(f"class {number}" for number in range(self.num_classes))
        alike = self._model.per_superclass if isinstance(self._model, Cifar100) else 0
        groups = tuple(number // alike for number in range(self.num_classes)) if alike else ()
        return Splits(train, val, test, names[: self.num_classes], "synthetic", groups)

    def novel_classes(self, part: str = "test") -> tuple[Images, tuple[str, ...]]:
        """Generate novel classes with their own patterns, numbered from 0, and their names; always the same."""
        check_part(part)
        self.check()
        if not isinstance(self._model, FewShot):
            raise OptionError(
                f"{self.name} has no classes beside those of the run: novel classes need data like 'cifar-fs', "
                "'mini-imagenet' or 'tiered-imagenet'."
            )
        count, seed = {"val": (16, 1), "test": (20, 2)}[part]
        labels = torch.arange(count * self.per_new_class) % count
        pixels = self._pixels(labels, count, torch.Generator().manual_seed(seed))
        return Images(pixels, labels, torch.arange(len(labels))), tuple(f"new {part} class {i}" for i in range(count))

    def _pixels(self, labels: Tensor, num_classes: int, chance: torch.Generator) -> Tensor:
        patterns = self._patterns(num_classes, chance)
        noise = torch.randn(len(labels), *patterns.shape[1:], generator=chance) * self.noise
        return (patterns[labels] + noise).clamp(0, 1).mul(255).round().to(torch.uint8)

    def _patterns(self, num_classes: int, chance: torch.Generator) -> Tensor:
        """Generate patterns that are coarse, so that crops preserve them, and symmetric, so that flips do."""
        coarse = torch.rand(num_classes, self.channels, 4, 4, generator=chance)
        coarse = (coarse + coarse.flip(3)) / 2
        return F.interpolate(coarse, size=(self.size, self.size), mode="bilinear")


_LIKE: dict[str, FileDataSet | Digits | FewShot] = {
    "mnist": Mnist(),
    "fashion-mnist": FashionMnist(),
    "cifar10": Cifar10(),
    "cifar100": Cifar100(),
    "digits": Digits(),
    "cifar-fs": CifarFS(),
    "mini-imagenet": MiniImageNet(),
    "tiered-imagenet": TieredImageNet(),
}
