"""What data sets of files with a training and a test part share; classes and images of them can be chosen."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor

from ...errors import OptionError
from ..types import Augmentation, DataSet, Images, Splits
from .split import split, subset

if TYPE_CHECKING:
    from .readers.cache import DecodedData

if TYPE_CHECKING:
    pass


@dataclass(frozen=True)
class FileDataSet(DataSet):
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
        """What is done to training images, before they are normalized."""
        return ()

    def load(self, seed: int) -> Splits:
        """Read it (the first time: decode it, see `cache`) and cut it; `seed` matters only where `split_seed` is -1."""
        check_classes(self.name, self.classes, self.all_classes)
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

    def _read(self) -> "DecodedData":
        """Its parts, decoded, the chosen classes first."""
        from .readers import cache

        return cache.load(self.name, self.root)


def superclasses_of(labels: Tensor, coarse: Tensor | None, num_classes: int) -> tuple[int, ...]:
    """The super-class of each class, by the labels of its images."""
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
    """Refuse a number of classes that cannot be chosen."""
    if classes < 0 or classes > there or classes == 1:
        raise OptionError(f"classes={classes} of {name} cannot be chosen: give 2 to {there}, or 0 for all.")
