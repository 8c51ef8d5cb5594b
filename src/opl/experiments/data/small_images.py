"""Data sets of small images with a training and a test set: digits, MNIST, Fashion-MNIST, CIFAR-10 and CIFAR-100.

All but the digits are decoded once into the cache (see `read.serve`); classes and images can be selected.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, ClassVar

import torch

from ..._ranges import Count, CountOrZero, Fraction, Range, SeedOrOfRun, check_settings
from ...errors import DataError, OptionError
from ..types import Augmentation, DataSet, Images, Splits, derived
from .augment import ColorJitter, Flip, Grayscale, PadCrop, RandomResizedCrop, ReflectCrop, enabled
from .read.catalog import CATALOG
from .split import keep_counts, split, subset

if TYPE_CHECKING:
    from .read.serve import DecodedData, DecodedPart

DIGITS, TESTED = 1797, 898  # images, and how many of them are for testing
GROWING_SIZES = ((0.15, 20), (0.5, 24))
"""Fractions of a short training, each with the height and width that images are reduced to until then."""


@dataclass(frozen=True)
class FileDataSet(DataSet):
    """Base class of data sets read from files."""

    root: str = ""
    """Folder of the data set, in the Hugging Face layout; if empty, $OPL_DATA and then the Hub are searched."""
    val: CountOrZero = 5000
    """Training images held out for validation, counted before class selection."""
    stratified: bool = False
    """Hold out the same fraction of every class."""
    split_seed: SeedOrOfRun = 0
    """Random seed of the validation set, equal for all runs; -1 uses the run's seed."""
    classes: CountOrZero = 0
    """Use only this many classes, from the first, in all parts; 0 uses all."""
    per_class: CountOrZero = 0
    """Maximum number of training images per class; 0 uses all."""
    test_per_class: CountOrZero = 0
    """Maximum number of test images per class; 0 uses all."""

    name: ClassVar[str]
    mean: ClassVar[tuple[float, ...]]
    std: ClassVar[tuple[float, ...]]

    channels = derived(lambda data: CATALOG[data.name].channels)
    size = derived(lambda data: CATALOG[data.name].size)
    num_classes = derived(lambda data: data.classes or CATALOG[data.name].num_classes)

    def check(self) -> None:
        """Raise an error for more classes than exist, or for more validation images than training images."""
        known = CATALOG[self.name]
        check_classes(self.name, self.classes, known.num_classes)
        check_val(self.name, self.val, known.images["train"])

    def load(self, seed: int) -> Splits:
        """Read the data set (decoded on first use) and split it; `seed` is used if `split_seed` is -1."""
        self.check()
        decoded = self._read()
        train, test = decoded.parts["train"], decoded.parts["test"]
        labels = train.labels
        seed = seed if self.split_seed == -1 else self.split_seed
        fit, val = split(labels, self.val, seed=seed, stratified=self.stratified)
        fit = fit[subset(labels[fit], self.num_classes, self.per_class, seed=seed)]
        val = val[subset(labels[val], self.num_classes)]
        tested = subset(test.labels, self.num_classes, self.test_per_class, seed=seed)
        return Splits(
            Images(train.pixels, labels, fit),
            Images(train.pixels, labels, val),
            Images(test.pixels, test.labels, tested),
            decoded.class_names[: self.num_classes],
            decoded.source,
            superclasses_of(test, self.num_classes),
        )

    def novel_classes(self, part: str = "test") -> tuple[Images, tuple[str, ...]]:
        """Return test images of up to `num_classes` of the classes that were left out, numbered from 0."""
        if part != "test":
            raise OptionError(f"{self.name} has novel classes only in the part 'test', not in {part!r}: use 'test'.")
        chosen, total = self.num_classes, CATALOG[self.name].num_classes
        if chosen >= total:
            raise OptionError(
                f"all classes of {self.name} were trained on, so none is novel: use a run with fewer, for example "
                "--data.classes 20."
            )
        decoded = self._read()
        last = min(2 * chosen, total)
        return decoded.parts["test"].classes(chosen, last), decoded.class_names[chosen:last]

    def _read(self) -> "DecodedData":
        """Return the decoded parts, with the selected classes first."""
        from .read import serve

        return serve.load(self.name, self.root)


def superclasses_of(part: "DecodedPart", num_classes: int) -> tuple[int, ...]:
    """Return the superclass of each class, from the labels of its images; empty if there are no superclasses."""
    if "coarse_label" not in part.others:
        return ()
    return tuple(int(part.others["coarse_label"][part.labels == label].mode().values) for label in range(num_classes))


def check_val(name: str, val: int, images: int) -> None:
    """Raise an error if this number of training images cannot be held out."""
    if val >= images:
        raise OptionError(f"data.val is {val}, but {name} has {images} training images: hold out fewer.")


def check_classes(name: str, classes: int, total: int) -> None:
    """Raise an error if this number of classes cannot be selected."""
    if classes < 0 or classes > total or classes == 1:
        raise OptionError(f"classes={classes} of {name} is invalid: must be 2 to {total}, or 0 for all.")


# Digits and MNIST


@dataclass(frozen=True)
class Digits(DataSet):
    """scikit-learn's handwritten digits: 1,797 grayscale images, 8 x 8; no download needed, not augmented."""

    root: str = ""
    """Unused: the data set is built into scikit-learn."""
    val: CountOrZero = 0
    """Training images held out for validation, the same fraction of every class."""
    split_seed: SeedOrOfRun = 0
    """Random seed of the validation set, equal for all runs; -1 uses the run's seed. It never affects the test set."""

    name: ClassVar[str] = "digits"
    channels: ClassVar[int] = 1
    size: ClassVar[int] = 8
    num_classes: ClassVar[int] = 10
    mean: ClassVar[tuple[float, ...]] = (0.3053,)
    std: ClassVar[tuple[float, ...]] = (0.3759,)
    augment: ClassVar[tuple[Augmentation, ...]] = ()

    def check(self) -> None:
        """Raise an error for more validation than training images."""
        check_settings(self, "data.")
        check_val(self.name, self.val, DIGITS - TESTED)

    def load(self, seed: int) -> Splits:
        """Split the data set: half of every class is for testing, the same images in all runs."""
        from sklearn.datasets import load_digits

        self.check()
        raw = load_digits()
        pixels = torch.from_numpy(raw.images).mul(255 / 16).round().to(torch.uint8)[:, None]  # 0 to 16 -> 0 to 255
        labels = torch.from_numpy(raw.target).long()
        train, test = split(labels, TESTED, seed=0, stratified=True)
        seed = seed if self.split_seed == -1 else self.split_seed
        fit, val = split(labels[train], self.val, seed=seed, stratified=True)
        names = tuple(str(digit) for digit in range(self.num_classes))
        fit_part, val_part, test_part = (Images(pixels, labels, rows) for rows in (train[fit], train[val], test))
        return Splits(fit_part, val_part, test_part, names, "scikit-learn")


@dataclass(frozen=True)
class Mnist(FileDataSet):
    """MNIST: 60,000 training and 10,000 test images of handwritten digits, 28 x 28, grayscale; not augmented."""

    name: ClassVar[str] = "mnist"
    augment: ClassVar[tuple[Augmentation, ...]] = ()
    mean: ClassVar[tuple[float, ...]] = (0.1307,)
    std: ClassVar[tuple[float, ...]] = (0.3081,)


@dataclass(frozen=True)
class FashionMnist(FileDataSet):
    """Fashion-MNIST: 60,000 training and 10,000 test images of clothes, 28 x 28, grayscale; not augmented.

    It can also be read from idx files.
    """

    name: ClassVar[str] = "fashion-mnist"
    augment: ClassVar[tuple[Augmentation, ...]] = ()
    mean: ClassVar[tuple[float, ...]] = (0.2860,)
    std: ClassVar[tuple[float, ...]] = (0.3530,)


# CIFAR


@dataclass(frozen=True)
class PhotoAugmentation:
    """Settings to crop, flip and jitter small photographs."""

    padding: Annotated[int, Range(0, 256)] = 4
    """Zero-pad by this many pixels and crop at a random position; 0 disables it."""
    flip: Fraction = 0.5
    """Probability of a horizontal flip."""
    jitter: Fraction = 0.4
    """Strength of brightness, contrast and saturation jitter; 0 disables it."""

    augment = derived(
        lambda data: enabled(PadCrop(data.padding), Flip(data.flip), ColorJitter(data.jitter, data.jitter, data.jitter))
    )


@dataclass(frozen=True)
class Cifar10(PhotoAugmentation, FileDataSet):
    """CIFAR-10: 50,000 training and 10,000 test images of 10 classes, 32 x 32; cropped and flipped."""

    jitter: Fraction = 0.0
    """Strength of brightness, contrast and saturation jitter; 0 disables it."""

    name: ClassVar[str] = "cifar10"
    mean: ClassVar[tuple[float, ...]] = (0.4914, 0.4822, 0.4465)
    std: ClassVar[tuple[float, ...]] = (0.2470, 0.2435, 0.2616)


@dataclass(frozen=True)
class Cifar100(PhotoAugmentation, FileDataSet):
    """CIFAR-100: 50,000 training and 10,000 test images of 100 classes, 32 x 32; augmented as in the paper's code."""

    superclasses: tuple[Annotated[int, Range(0, 19)], ...] = ()
    """Use only the classes of these superclasses, numbered 0 to 19 in alphabetical order; empty uses all."""

    name: ClassVar[str] = "cifar100"
    per_superclass: ClassVar[int] = 5
    mean: ClassVar[tuple[float, ...]] = (0.50708, 0.48655, 0.44092)
    std: ClassVar[tuple[float, ...]] = (0.26733, 0.25644, 0.27615)

    num_classes = derived(
        lambda data: data.per_superclass * len(data.superclasses) or data.classes or CATALOG[data.name].num_classes
    )

    def check(self) -> None:
        """Also raise an error for superclasses that are named twice, or together with a number of classes."""
        super().check()
        distinct = {*self.superclasses}
        in_range = all(0 <= number <= 19 for number in distinct)
        if len(distinct) < len(self.superclasses) or not in_range or (self.superclasses and self.classes):
            raise OptionError(
                f"superclasses={self.superclasses} with classes={self.classes} is invalid: use distinct numbers from "
                "0 to 19, and no number of classes."
            )

    def _read(self) -> "DecodedData":
        self.check()
        return _put_first(self.superclasses, super()._read(), self) if self.superclasses else super()._read()


def _put_first(superclasses: tuple[int, ...], decoded: "DecodedData", settings: Cifar100) -> "DecodedData":
    """Renumber the classes so that these superclasses come first; the order is otherwise unchanged."""
    test = decoded.parts["test"]
    if "coarse_label" not in test.others:
        raise DataError(
            f"{settings.name} from {decoded.source} has no column 'coarse_label', so its superclasses are unknown: "
            "use the data set as it is on the Hub."
        )
    groups = superclasses_of(test, CATALOG[settings.name].num_classes)
    order = sorted(range(len(groups)), key=lambda number: groups[number] not in superclasses)
    if sum(group in superclasses for group in groups) != settings.num_classes:
        raise DataError(
            f"the superclasses of {settings.name} from {decoded.source} do not have five classes each: use the data "
            "set as it is on the Hub."
        )
    new = torch.tensor(order).argsort()  # old class id -> new class id
    parts = {name: replace(part, labels=new[part.labels]) for name, part in decoded.parts.items()}
    return replace(decoded, parts=parts, class_names=tuple(decoded.class_names[old] for old in order))


class _Fast:
    """CIFAR with the augmentation of speed runs, which replaces crop, flip and jitter."""

    augment: ClassVar[tuple[Augmentation, ...]] = (ReflectCrop(2),)
    alternate_flip: ClassVar[bool] = True
    growing_sizes: ClassVar[tuple[tuple[float, int], ...]] = GROWING_SIZES


@dataclass(frozen=True)
class FastCifar100(_Fast, Cifar100):
    """CIFAR-100 for few epochs: shifted, flipped in every second epoch, and small at first."""


@dataclass(frozen=True)
class FastCifar10(_Fast, Cifar10):
    """CIFAR-10 for few epochs: shifted, flipped in every second epoch, and small at first."""


class TwoViews:
    """Two independently augmented views of each image, as in SimCLR on CIFAR, for self-supervision.

    The augmentations are random resized crops, flips, color jitter and grayscale. Every image is jittered; SimCLR
    leaves out a fifth.
    """

    views: ClassVar[int] = 2
    augment: ClassVar[tuple[Augmentation, ...]] = (
        RandomResizedCrop(32, least=0.2),
        Flip(),
        ColorJitter(0.4, 0.4, 0.4, 0.1),
        Grayscale(0.2),
    )
    growing_sizes: ClassVar[tuple[tuple[float, int], ...]] = GROWING_SIZES


@dataclass(frozen=True)
class TwoViewsCifar10(TwoViews, Cifar10):
    """CIFAR-10 with two views of each training image."""


# Long tail


def long_tail_counts(num_classes: int, largest: int, imbalance: float) -> list[int]:
    """Return the number of training images of each class, rounded down.

    Example:
        >>> long_tail_counts(3, largest=500, imbalance=100)
        [500, 50, 5]
    """
    last = max(1, num_classes - 1)
    return [int(largest * imbalance ** (-label / last) + 1e-9) for label in range(num_classes)]


@dataclass(frozen=True)
class LongTail:
    """Training images per class that decay exponentially; validation and test sets are unchanged.

    This is the profile of CIFAR-100-LT: class c of C keeps `largest * imbalance^(-c / (C - 1))` images, in the order of
    the class ids, so that the first class has `imbalance` times as many images as the last.
    """

    imbalance: Annotated[float, Range(1, 10**6)] = 100.0
    """Images of the first class per image of the last class."""
    largest: Count = 500
    """Training images of the first class; a class that has fewer left after validation keeps all."""

    def load(self, seed: int) -> Splits:
        """Load the data set and keep the long tail of its training images, the same images for every seed."""
        splits: Splits = super().load(seed)  # type: ignore[misc]
        train = splits.train
        counts = long_tail_counts(len(splits.class_names), self.largest, self.imbalance)
        kept = keep_counts(train.labels[train.rows], counts)
        return splits._replace(train=replace(train, rows=train.rows[kept]))


@dataclass(frozen=True)
class LongTailedCifar100(LongTail, FastCifar100):
    """CIFAR-100-LT: CIFAR-100 with few training images of the last classes, augmented as for few epochs."""

    stratified: bool = True
    """Hold out the same fraction of every class."""
