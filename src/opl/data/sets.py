"""The data sets: frozen values whose fields are a recipe's flags, and that load themselves as `Splits`.

Besides `load`, each has what the other rooms need to know: `name`, `channels`, `size` (of the square images),
`num_classes`, `mean` and `std` of each channel, and `augment`, what is done to training images.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from ..errors import DataError, OptionError, unknown
from ..types import Images, Splits
from .augment import Augmentation, ColorJitter, Flip, PadCrop
from .domains import DomainFolder, Pacs
from .few_shot import CifarFS, FewShot, MiniImageNet, NewClasses, TieredImageNet, check_part
from .known import KNOWN
from .made_up_domains import MadeUpDomains
from .split import split, subset

if TYPE_CHECKING:
    from .cache import Decoded


@dataclass(frozen=True)
class _Stored:
    """What data sets made of files share."""

    root: str = ""
    """Folder of the data set, in the Hugging Face layout; if empty, $OPL_DATA and then the Hub are asked."""
    val: int = 5000
    """Training images held out for validation, before any class is left out."""
    stratified: bool = False
    """Hold the same share of every class out."""
    split_seed: int = 0
    """What chooses the held-out images, the same for all runs; -1 takes the seed of the run."""
    classes: int = 0
    """Only the first so many classes, in all parts; 0 takes all."""
    per_class: int = 0
    """At most so many training images of each class; 0 takes all."""
    test_per_class: int = 0
    """At most so many test images of each class; 0 takes all."""

    name: ClassVar[str]
    channels: ClassVar[int]
    size: ClassVar[int]
    all_classes: ClassVar[int]
    mean: ClassVar[tuple[float, ...]]
    std: ClassVar[tuple[float, ...]]

    @property
    def num_classes(self) -> int:
        """After the choice of classes."""
        return self.classes or self.all_classes

    @property
    def augment(self) -> tuple[Augmentation, ...]:
        """What is done to training images, before they are normalised."""
        return ()

    def load(self, seed: int) -> Splits:
        """Read it (the first time: decode it, see `cache`) and cut it; `seed` matters only where `split_seed` is -1."""
        _check_classes(self.name, self.classes, self.all_classes)
        decoded = self._read()
        train, test = (decoded.parts[part] for part in ("train", "test"))
        train_labels, test_labels = (part.labels[decoded.label] for part in (train, test))
        cut = _cut(
            Images(train.pixels, train_labels, torch.arange(len(train_labels))),
            Images(test.pixels, test_labels, torch.arange(len(test_labels))),
            self,
            seed if self.split_seed == -1 else self.split_seed,
            decoded.names[decoded.label],
            decoded.source,
        )
        return cut._replace(groups=_groups(test_labels, test.labels.get("coarse_label"), self.num_classes))

    def unseen(self, part: str = "test") -> tuple[Images, tuple[str, ...]]:
        """The test images of as many classes as were chosen, from those that were left out; their ids start at 0."""
        if part != "test":
            raise OptionError(f"{self.name} has new classes for testing only: give the part 'test', not {part!r}.")
        chosen = self.num_classes
        if chosen >= self.all_classes:
            raise OptionError(
                f"all classes of {self.name} were trained on, so none is new: take a run with fewer, for instance "
                "--data.classes 20."
            )
        decoded = self._read()
        test, last = decoded.parts["test"], min(2 * chosen, self.all_classes)
        labels = test.labels[decoded.label]
        rows = ((labels >= chosen) & (labels < last)).nonzero().flatten()
        return Images(test.pixels, labels - chosen, rows), decoded.names[decoded.label][chosen:last]

    def _read(self) -> "Decoded":
        """Its parts, decoded, the chosen classes first."""
        from . import cache

        return cache.load(self.name, self.root)


def _groups(labels: Tensor, coarse: Tensor | None, num_classes: int) -> tuple[int, ...]:
    """The super-class of each class, by the labels of its images."""
    if coarse is None:
        return ()
    return tuple(int(coarse[labels == each].mode().values) for each in range(num_classes))


def _cut(train: Images, test: Images, settings: "_Stored", seed: int, names: tuple[str, ...], source: str) -> Splits:
    chosen = settings.num_classes
    fit, val = split(train.labels, settings.val, seed=seed, stratified=settings.stratified)
    fit = fit[subset(train.labels[fit], chosen, settings.per_class, seed=seed)]
    val = val[subset(train.labels[val], chosen)]
    kept = subset(test.labels, chosen, settings.test_per_class, seed=seed)
    return Splits(
        Images(train.pixels, train.labels, fit),
        Images(train.pixels, train.labels, val),
        Images(test.pixels, test.labels, kept),
        names[:chosen],
        source,
    )


@dataclass(frozen=True)
class Mnist(_Stored):
    """MNIST: 60,000 and 10,000 handwritten digits, 28 x 28, grey; not augmented."""

    name: ClassVar[str] = "mnist"
    channels: ClassVar[int] = 1
    size: ClassVar[int] = 28
    all_classes: ClassVar[int] = 10
    mean: ClassVar[tuple[float, ...]] = (0.1307,)
    std: ClassVar[tuple[float, ...]] = (0.3081,)


@dataclass(frozen=True)
class FashionMnist(_Stored):
    """Fashion-MNIST: 60,000 and 10,000 pictures of clothes, 28 x 28, grey; not augmented. Read from idx files too."""

    name: ClassVar[str] = "fashion-mnist"
    channels: ClassVar[int] = 1
    size: ClassVar[int] = 28
    all_classes: ClassVar[int] = 10
    mean: ClassVar[tuple[float, ...]] = (0.2860,)
    std: ClassVar[tuple[float, ...]] = (0.3530,)


@dataclass(frozen=True)
class _Cifar(_Stored):
    """What both CIFARs share."""

    padding: int = 4
    """Zero-pad by so much and crop at a random place; 0 does not."""
    flip: float = 0.5
    """Probability of a horizontal flip."""
    jitter: float = 0.4
    """Strength of the jitter of brightness, contrast and saturation; 0 does not."""

    channels: ClassVar[int] = 3
    size: ClassVar[int] = 32

    @property
    def augment(self) -> tuple[Augmentation, ...]:
        """Crop, flip and jitter, in this order, each unless it is switched off."""
        crop = (PadCrop(self.padding),) if self.padding else ()
        flip = (Flip(self.flip),) if self.flip else ()
        jitter = (ColorJitter(self.jitter, self.jitter, self.jitter),) if self.jitter else ()
        return (*crop, *flip, *jitter)


@dataclass(frozen=True)
class Cifar10(_Cifar):
    """CIFAR-10: 50,000 and 10,000 photographs of 10 classes, 32 x 32; cropped and flipped."""

    jitter: float = 0.0
    """Strength of the jitter of brightness, contrast and saturation; 0 does not."""

    name: ClassVar[str] = "cifar10"
    all_classes: ClassVar[int] = 10
    mean: ClassVar[tuple[float, ...]] = (0.4914, 0.4822, 0.4465)
    std: ClassVar[tuple[float, ...]] = (0.2470, 0.2435, 0.2616)


@dataclass(frozen=True)
class Cifar100(_Cifar):
    """CIFAR-100: 50,000 and 10,000 photographs of 100 classes, 32 x 32; augmented as in the paper's code."""

    superclasses: tuple[int, ...] = ()
    """Only the classes of these super-classes, numbered 0 to 19 in alphabetical order; none named takes all."""

    name: ClassVar[str] = "cifar100"
    all_classes: ClassVar[int] = 100
    per_superclass: ClassVar[int] = 5
    mean: ClassVar[tuple[float, ...]] = (0.50708, 0.48655, 0.44092)
    std: ClassVar[tuple[float, ...]] = (0.26733, 0.25644, 0.27615)

    @property
    def num_classes(self) -> int:
        """After the choice of classes."""
        return self.per_superclass * len(self.superclasses) or super().num_classes

    def _read(self) -> "Decoded":
        return _gathered(super()._read(), self) if self.superclasses else super()._read()


def _gathered(decoded: "Decoded", settings: Cifar100) -> "Decoded":
    """The same with its classes numbered anew: those of the chosen super-classes first, else in their order."""
    there = settings.all_classes // settings.per_superclass
    wanted = settings.superclasses
    if settings.classes or len({*wanted}) < len(wanted) or not all(0 <= each < there for each in wanted):
        raise OptionError(
            f"superclasses={wanted} with classes={settings.classes} cannot be chosen: give different numbers from 0 to "
            f"{there - 1}, and no number of classes besides."
        )
    test = decoded.parts["test"]
    if "coarse_label" not in test.labels:
        raise DataError(
            f"{settings.name} from {decoded.source} has no column 'coarse_label', so its super-classes are not known: "
            "take the data set as the Hub has it."
        )
    groups = _groups(test.labels[decoded.label], test.labels["coarse_label"], settings.all_classes)
    order = sorted(range(len(groups)), key=lambda number: groups[number] not in wanted)
    if sum(group in wanted for group in groups) != settings.num_classes:
        raise DataError(f"the super-classes of {settings.name} from {decoded.source} do not have five classes each.")
    new = torch.tensor(order).argsort()  # old number -> new number
    parts = {
        name: replace(part, labels={**part.labels, decoded.label: new[part.labels[decoded.label]]})
        for name, part in decoded.parts.items()
    }
    names = {**decoded.names, decoded.label: tuple(decoded.names[decoded.label][old] for old in order)}
    return replace(decoded, parts=parts, names=names)


@dataclass(frozen=True)
class Digits:
    """scikit-learn's handwritten digits: 1,797 images, 8 x 8, grey; built in, nothing to download; not augmented."""

    root: str = ""
    """Not used: the data set is built in."""
    test_fraction: float = 0.5
    """Share of every class that is for testing, the same images in all runs."""
    val: int = 0
    """Training images held out for validation, the same share of every class."""
    split_seed: int = 0
    """What chooses the held-out images, the same for all runs; -1 takes the seed of the run. Never the test images."""

    name: ClassVar[str] = "digits"
    channels: ClassVar[int] = 1
    size: ClassVar[int] = 8
    num_classes: ClassVar[int] = 10
    mean: ClassVar[tuple[float, ...]] = (0.3053,)
    std: ClassVar[tuple[float, ...]] = (0.3759,)
    augment: ClassVar[tuple[Augmentation, ...]] = ()

    def load(self, seed: int) -> Splits:
        """Cut it; `seed` matters only where `split_seed` is -1."""
        from sklearn.datasets import load_digits

        if not 0 < self.test_fraction < 1:
            raise OptionError(f"test_fraction is {self.test_fraction}: give a share between 0 and 1.")
        raw = load_digits()
        pixels = torch.from_numpy(raw.images).mul(255 / 16).round().to(torch.uint8)[:, None]  # 0 to 16 -> 0 to 255
        labels = torch.from_numpy(raw.target).long()
        train, test = split(labels, round(self.test_fraction * len(labels)), seed=0, stratified=True)
        fit, val = split(
            labels[train], self.val, seed=seed if self.split_seed == -1 else self.split_seed, stratified=True
        )
        names = tuple(str(digit) for digit in range(self.num_classes))
        fit_part, val_part, test_part = (Images(pixels, labels, rows) for rows in (train[fit], train[val], test))
        return Splits(fit_part, val_part, test_part, names, "scikit-learn")


@dataclass(frozen=True)
class MadeUp:
    """Made-up images in the shape of a data set, with its classes: a pattern for each class, and noise.

    A smoke run learns something from them in seconds; its numbers mean nothing. Like a few-shot data set it has new
    classes as well, 16 for validation and 20 for testing.
    """

    like: Literal[
        "mnist", "fashion-mnist", "cifar10", "cifar100", "digits", "cifar-fs", "mini-imagenet", "tiered-imagenet"
    ] = "digits"
    """The data set whose shape, classes, normalisation and augmentation it takes."""
    root: str = ""
    """Not used: nothing is read."""
    rows: int = 256
    """Training images."""
    val: int = 64
    """Validation images."""
    test: int = 128
    """Test images."""
    classes: int = 0
    """Only so many classes; 0 takes all."""
    noise: float = 0.1
    """Standard deviation of the noise; the patterns reach from 0 to 1."""
    per_new_class: int = 20
    """Images of each new class: 20 are 5 shots and 15 queries."""

    @property
    def _model(self) -> "_Stored | Digits | FewShot":
        if self.like not in _LIKE:
            raise OptionError(unknown("data set", self.like, _LIKE))
        return _LIKE[self.like]

    @property
    def name(self) -> str:
        """Says what it is."""
        return f"made-up-{self.like}"

    @property
    def channels(self) -> int:
        """As the data set's."""
        return self._model.channels

    @property
    def size(self) -> int:
        """As the data set's."""
        return self._model.size

    @property
    def num_classes(self) -> int:
        """After the choice of classes."""
        return self.classes or self._model.num_classes

    @property
    def mean(self) -> tuple[float, ...]:
        """As the data set's."""
        return self._model.mean

    @property
    def std(self) -> tuple[float, ...]:
        """As the data set's."""
        return self._model.std

    @property
    def augment(self) -> tuple[Augmentation, ...]:
        """As the data set's."""
        return self._model.augment

    def load(self, seed: int) -> Splits:
        """Make it, always the same whatever `seed`."""
        _check_classes(self.name, self.classes, self._model.num_classes)
        count = self.rows + self.val + self.test
        labels = torch.arange(count) % self.num_classes
        pixels = self._pixels(labels, self.num_classes, torch.Generator().manual_seed(0))
        cuts = torch.tensor([self.rows, self.rows + self.val])
        train, val, test = (Images(pixels, labels, rows) for rows in torch.arange(count).tensor_split(cuts))
        known = KNOWN[self.like].names if self.like in KNOWN else ()
        names = known or tuple(f"class {number}" for number in range(self.num_classes))
        alike = getattr(self._model, "per_superclass", 0)
        groups = tuple(number // alike for number in range(self.num_classes)) if alike else ()
        return Splits(train, val, test, names[: self.num_classes], "made up", groups)

    def unseen(self, part: NewClasses = "test") -> tuple[Images, tuple[str, ...]]:
        """New classes with patterns of their own, numbered from 0, and their names; always the same."""
        check_part(part)
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
        """Coarse, so that crops keep them, and symmetric, so that flips do."""
        coarse = torch.rand(num_classes, self.channels, 4, 4, generator=chance)
        coarse = (coarse + coarse.flip(3)) / 2
        return F.interpolate(coarse, size=(self.size, self.size), mode="bilinear")


_LIKE: dict[str, _Stored | Digits | FewShot] = {
    "mnist": Mnist(),
    "fashion-mnist": FashionMnist(),
    "cifar10": Cifar10(),
    "cifar100": Cifar100(),
    "digits": Digits(),
    "cifar-fs": CifarFS(),
    "mini-imagenet": MiniImageNet(),
    "tiered-imagenet": TieredImageNet(),
}

Domains = Pacs | DomainFolder | MadeUpDomains
DataSet = (
    Digits | Mnist | FashionMnist | Cifar10 | Cifar100 | CifarFS | MiniImageNet | TieredImageNet | MadeUp | Domains
)


def _check_classes(name: str, classes: int, there: int) -> None:
    if classes < 0 or classes > there or classes == 1:
        raise OptionError(f"classes={classes} of {name} cannot be chosen: give 2 to {there}, or 0 for all.")
