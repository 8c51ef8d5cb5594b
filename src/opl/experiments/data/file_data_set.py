"""The base class of data sets read from files with a training and a test set, with class and image selection."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor

from ..._ranges import CountOrZero, SeedOrOfRun
from ...errors import OptionError
from ..types import Augmentation, DataSet, Images, Splits
from .read.catalog import CATALOG
from .split import split, subset

if TYPE_CHECKING:
    from .read.cache import DecodedData


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
    channels: ClassVar[int]
    size: ClassVar[int]
    all_classes: ClassVar[int]
    mean: ClassVar[tuple[float, ...]]
    std: ClassVar[tuple[float, ...]]

    @property
    def num_classes(self) -> int:
        """Number of classes after class selection."""
        return self.classes or self.all_classes

    @property
    def augment(self) -> tuple[Augmentation, ...]:
        """The augmentations of training images, applied before normalization."""
        return ()

    def check(self) -> None:
        """Raise an error for more classes than there are, or more validation images than there are for training."""
        check_classes(self.name, self.classes, self.all_classes)
        there = CATALOG[self.name].images["train"]
        if self.val >= there:
            raise OptionError(f"data.val is {self.val}, and {self.name} has {there} training images: hold out fewer.")

    def load(self, seed: int) -> Splits:
        """Read the data set (decoded on first use, see `cache`) and split it; `seed` is used if `split_seed` is -1."""
        self.check()
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
        return cut._replace(groups=superclasses_of(test_labels, test.labels.get("coarse_label"), self.num_classes))

    def novel_classes(self, part: str = "test") -> tuple[Images, tuple[str, ...]]:
        """Return test images of up to `num_classes` of the classes that were left out, numbered from 0."""
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

    def _read(self) -> "DecodedData":
        """Return the decoded parts, with the selected classes first."""
        from .read import cache

        return cache.load(self.name, self.root)


def superclasses_of(labels: Tensor, coarse: Tensor | None, num_classes: int) -> tuple[int, ...]:
    """Return the superclass of each class, from the labels of its images."""
    if coarse is None:
        return ()
    return tuple(int(coarse[labels == each].mode().values) for each in range(num_classes))


def _cut(train: Images, test: Images, settings: FileDataSet, seed: int, names: tuple[str, ...], source: str) -> Splits:
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


def check_classes(name: str, classes: int, there: int) -> None:
    """Raise an error if this number of classes cannot be selected."""
    if classes < 0 or classes > there or classes == 1:
        raise OptionError(f"classes={classes} of {name} cannot be chosen: give 2 to {there}, or 0 for all.")
