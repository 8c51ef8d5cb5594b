"""Synthetic images in the shape of real data sets, for smoke tests: one pattern per class, plus noise."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from ..._ranges import CountOrZero, NotNegative, Range, check_settings
from ...errors import OptionError, did_you_mean
from ..seeds import mix
from ..types import DataSet, Images, Splits, derived, empty_part
from .domains import PACS, augmentation, check_target
from .episode_sampling import Hierarchy
from .few_shot import CifarFS, FewShotDataSet, MiniImageNet, TieredImageNet, check_part
from .meta_dataset import MetaDataSet
from .read.catalog import CATALOG
from .small_images import (
    Cifar10,
    Cifar100,
    Digits,
    FashionMnist,
    FileDataSet,
    LongTail,
    Mnist,
    TwoViews,
    check_classes,
)

PER_NOVEL_CLASS = 20  # images, enough for 5 shots and 15 queries
NOISE = 0.1  # standard deviation; patterns range from 0 to 1
PARTS = ("train", "val", "test")


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
    noise: NotNegative = NOISE
    """Standard deviation of the noise; the patterns range from 0 to 1."""
    pixels: Annotated[int, Range(0, 4096)] = 0
    """Height and width of the images; 0 uses the size of the copied data set."""

    @property
    def _model(self) -> FileDataSet | Digits | FewShotDataSet:
        if self.like not in _LIKE:
            raise OptionError(did_you_mean("data set", self.like, _LIKE))
        return _LIKE[self.like]

    name = derived(lambda data: f"synthetic-{data.like}")
    channels = derived(lambda data: data._model.channels)
    size = derived(lambda data: data.pixels or data._model.size)
    num_classes = derived(lambda data: data.classes or data._model.num_classes)
    mean = derived(lambda data: data._model.mean)
    std = derived(lambda data: data._model.std)
    augment = derived(lambda data: data._model.augment)

    def check(self) -> None:
        """Raise an error for settings out of range, or more classes than the copied data set has."""
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
        group_size = self._model.per_superclass if isinstance(self._model, Cifar100) else 0
        groups = tuple(number // group_size for number in range(self.num_classes)) if group_size else ()
        return Splits(train, val, test, names[: self.num_classes], "synthetic", groups)

    def novel_classes(self, part: str = "test") -> tuple[Images, tuple[str, ...]]:
        """Generate novel classes with their own patterns, numbered from 0, and their names; always the same."""
        check_part(part)
        self.check()
        if not isinstance(self._model, FewShotDataSet):
            raise OptionError(
                f"{self.name} has no novel classes: use data like 'cifar-fs', 'mini-imagenet' or 'tiered-imagenet'."
            )
        count, seed = {"val": (16, 1), "test": (20, 2)}[part]
        labels = torch.arange(count * PER_NOVEL_CLASS) % count
        pixels = self._pixels(labels, count, torch.Generator().manual_seed(seed))
        return Images(pixels, labels, torch.arange(len(labels))), tuple(f"new {part} class {i}" for i in range(count))

    def _pixels(self, labels: Tensor, num_classes: int, generator: torch.Generator) -> Tensor:
        patterns = _patterns(num_classes, self.channels, self.size, generator)
        return _add_noise(patterns[labels], self.noise, generator)


def _patterns(
    num_classes: int, channels: int, size: int, generator: torch.Generator, *, symmetric: bool = True
) -> Tensor:
    """Generate patterns that are coarse, so that crops preserve them, and symmetric, so that flips do."""
    coarse = torch.rand(num_classes, channels, 4, 4, generator=generator)
    coarse = (coarse + coarse.flip(3)) / 2 if symmetric else coarse
    return F.interpolate(coarse, size=(size, size), mode="bilinear")


def _add_noise(images: Tensor, noise: float, generator: torch.Generator) -> Tensor:
    """Return (N, C, H, W) uint8 pixels of images in [0, 1] with normal noise."""
    noisy = images + torch.randn(images.shape, generator=generator) * noise
    return noisy.clamp(0, 1).mul(255).round().to(torch.uint8)


_LIKE: dict[str, FileDataSet | Digits | FewShotDataSet] = {
    kind.name: kind()
    for kind in (Mnist, FashionMnist, Cifar10, Cifar100, Digits, CifarFS, MiniImageNet, TieredImageNet)
}


@dataclass(frozen=True)
class SyntheticDomains(DataSet):
    """Synthetic images in the shape of PACS, with its classes and domains; the numbers mean nothing.

    A class is a pattern of light and dark, and a domain is the pair of colors it is drawn in, so that a network can
    learn the patterns and recognize them in another domain.
    """

    target: str = "photo"
    """The domain that is excluded from training and validation and used for testing."""
    mirror_batches: bool = False
    """Train on every batch together with its mirror images."""

    name: ClassVar[str] = "synthetic-pacs"
    channels: ClassVar[int] = 3
    size: ClassVar[int] = 32
    rows: ClassVar[int] = 42  # training images per domain; 14 more are for validation, all 56 of the target for testing
    num_classes: ClassVar[int] = 7
    mean: ClassVar[tuple[float, ...]] = (0.485, 0.456, 0.406)
    std: ClassVar[tuple[float, ...]] = (0.229, 0.224, 0.225)

    augment = augmentation(size, 0.8, 0.5, 0.4, 0.1)  # as for PACS

    def check(self) -> None:
        """Raise an error for an unknown target."""
        check_target(self.target, tuple(PACS))

    def load(self, seed: int) -> Splits:
        """Generate the data, which is the same for every `seed`."""
        self.check()
        names = tuple(PACS)
        generator, per_domain = torch.Generator().manual_seed(0), self.rows + 2 * self.num_classes
        labels = torch.arange(per_domain * len(names)) % self.num_classes
        domains = torch.arange(len(labels)) // per_domain
        patterns = _patterns(self.num_classes, 1, self.size, generator)
        dark, light = (torch.rand(len(names), 3, 1, 1, generator=generator) * 0.5 + start for start in (0.0, 0.5))
        pixels = _add_noise(dark[domains] + (light - dark)[domains] * patterns[labels], NOISE, generator)
        target, held = domains == names.index(self.target), torch.arange(len(labels)) % per_domain >= self.rows
        parts = (~target & ~held, ~target & held, target)
        train, val, test = (Images(pixels, labels, part.nonzero().flatten(), domains) for part in parts)
        classes = tuple(f"class {number}" for number in range(self.num_classes))
        return Splits(train, val, test, classes, "synthetic", domain_names=names)


@dataclass(frozen=True)
class SyntheticSource(MetaDataSet):
    """Synthetic images of a source; the numbers mean nothing.

    A class is a coarse pattern of light and dark; all classes of a source share a pair of colors. Its name determines
    patterns and colors. The test classes of a source whose name begins with 'omniglot' form two related halves.
    """

    num_classes: ClassVar[int] = 6  # for training, as many for validation, and twice as many for testing
    images: ClassVar[int] = 16  # per class, from 8 fewer to 8 more in the test classes

    name = derived(lambda data: f"synthetic-{data.source}")

    def load(self, seed: int) -> Splits:
        """Generate the training classes, the same for every `seed`; a quarter of the images is for testing."""
        self.check()
        images, names = self._part("train", torch.full((self.num_classes,), self.images))
        held = torch.arange(len(images)) % 4 == 3
        train = Images(images.pixels, images.labels, (~held).nonzero().flatten())
        test = Images(images.pixels, images.labels, held.nonzero().flatten())
        return Splits(train, empty_part(train), test, names, "synthetic")

    def novel_classes(self, part: str = "test") -> tuple[Images, tuple[str, ...]]:
        """Generate the classes of another part, numbered from 0, and their names; always the same."""
        check_part(part)
        self.check()
        count = 2 * self.num_classes if part == "test" else self.num_classes
        least = max(4, self.images - 8)
        return self._part(part, least + torch.arange(count) * 5 % (self.images + 9 - least))

    def hierarchy(self, part: str) -> Hierarchy | None:
        """Return two halves for a source like Omniglot; None for others."""
        if not self.source.startswith("omniglot"):
            return None
        count = 2 * self.num_classes if part == "test" else self.num_classes
        return Hierarchy((tuple(range(count // 2)), tuple(range(count // 2, count))))

    def _part(self, part: str, counts: torch.Tensor) -> tuple[Images, tuple[str, ...]]:
        generator = torch.Generator().manual_seed(mix(PARTS.index(part), *self.source.encode()))
        colors = torch.Generator().manual_seed(mix(*self.source.encode()))
        dark, light = (torch.rand(3, 1, 1, generator=colors) * 0.4 + start for start in (0.0, 0.6))
        labels = torch.arange(len(counts)).repeat_interleave(counts)
        patterns = _patterns(len(counts), 1, self.size, generator, symmetric=False)
        pixels = _add_noise(dark + (light - dark) * patterns[labels], NOISE, generator)
        names = tuple(f"{self.source} {part} class {number}" for number in range(len(counts)))
        return Images(pixels, labels, torch.arange(len(labels))), names


@dataclass(frozen=True)
class SyntheticTwoViews(TwoViews, Synthetic):
    """Synthetic images with two views of each training image."""


@dataclass(frozen=True)
class SyntheticLongTail(LongTail, Synthetic):
    """Synthetic images with few training images of the last classes."""
