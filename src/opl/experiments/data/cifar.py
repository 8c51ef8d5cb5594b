"""CIFAR-10 and CIFAR-100."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, ClassVar

import torch

from ..._ranges import Fraction, Range
from ...errors import DataError, OptionError
from ..types import Augmentation
from .file_data_set import FileDataSet, superclasses_of
from .photos import PhotoAugmentation

if TYPE_CHECKING:
    from .read.cache import DecodedData


@dataclass(frozen=True)
class _Cifar(PhotoAugmentation, FileDataSet):
    """Settings and augmentation that both CIFARs share."""

    channels: ClassVar[int] = 3
    size: ClassVar[int] = 32

    @property
    def augment(self) -> tuple[Augmentation, ...]:
        """Crop, flip and jitter, in this order; each can be disabled."""
        return (*self.steps.crop, *self.steps.flip, *self.steps.jitter)


@dataclass(frozen=True)
class Cifar10(_Cifar):
    """CIFAR-10: 50,000 training and 10,000 test images of 10 classes, 32 x 32; cropped and flipped."""

    jitter: Fraction = 0.0
    """Strength of brightness, contrast and saturation jitter; 0 disables it."""

    name: ClassVar[str] = "cifar10"
    all_classes: ClassVar[int] = 10
    mean: ClassVar[tuple[float, ...]] = (0.4914, 0.4822, 0.4465)
    std: ClassVar[tuple[float, ...]] = (0.2470, 0.2435, 0.2616)


@dataclass(frozen=True)
class Cifar100(_Cifar):
    """CIFAR-100: 50,000 training and 10,000 test images of 100 classes, 32 x 32; augmented as in the paper's code."""

    superclasses: tuple[Annotated[int, Range(0, 19)], ...] = ()
    """Use only the classes of these superclasses, numbered 0 to 19 in alphabetical order; empty uses all."""

    name: ClassVar[str] = "cifar100"
    all_classes: ClassVar[int] = 100
    per_superclass: ClassVar[int] = 5
    mean: ClassVar[tuple[float, ...]] = (0.50708, 0.48655, 0.44092)
    std: ClassVar[tuple[float, ...]] = (0.26733, 0.25644, 0.27615)

    @property
    def num_classes(self) -> int:
        """Number of classes after class selection."""
        return self.per_superclass * len(self.superclasses) or super().num_classes

    def check(self) -> None:
        """Also raise an error for superclasses that are named twice, or together with a number of classes."""
        super().check()
        if len({*self.superclasses}) < len(self.superclasses) or (self.superclasses and self.classes):
            raise OptionError(
                f"superclasses={self.superclasses} with classes={self.classes} cannot be chosen: give different "
                "numbers from 0 to 19, and no number of classes besides."
            )

    def _read(self) -> "DecodedData":
        return _gathered(super()._read(), self) if self.superclasses else super()._read()


def _gathered(decoded: "DecodedData", settings: Cifar100) -> "DecodedData":
    """Renumber the classes so that those of the selected superclasses come first; otherwise their order is kept."""
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
    groups = superclasses_of(test.labels[decoded.label], test.labels["coarse_label"], settings.all_classes)
    order = sorted(range(len(groups)), key=lambda number: groups[number] not in wanted)
    if sum(group in wanted for group in groups) != settings.num_classes:
        raise DataError(f"the super-classes of {settings.name} from {decoded.source} do not have five classes each.")
    new = torch.tensor(order).argsort()  # old class id -> new class id
    parts = {
        name: replace(part, labels={**part.labels, decoded.label: new[part.labels[decoded.label]]})
        for name, part in decoded.parts.items()
    }
    names = {**decoded.names, decoded.label: tuple(decoded.names[decoded.label][old] for old in order)}
    return replace(decoded, parts=parts, names=names)
