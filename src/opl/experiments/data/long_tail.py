"""Long-tailed data: training images per class that decay exponentially; validation and test sets stay as they are.

This is the profile of CIFAR-100-LT: class c of C keeps `largest * imbalance^(-c / (C - 1))` images, in the order of the
class ids, so that the first class has `imbalance` times as many images as the last.
"""

from dataclasses import dataclass, replace
from typing import Annotated

from ..._ranges import Count, Range
from ..types import Splits
from .small_images import FastCifar100
from .split import keep_counts
from .synthetic import Synthetic


def long_tail_counts(num_classes: int, largest: int, imbalance: float) -> list[int]:
    """Return the number of training images of each class, rounded down.

    Example:
        >>> long_tail_counts(3, largest=500, imbalance=100)
        [500, 50, 5]
    """
    last = max(1, num_classes - 1)
    return [int(largest * imbalance ** (-label / last) + 1e-9) for label in range(num_classes)]


@dataclass(frozen=True)
class _LongTail:
    """Settings of the profile; it comes before a data set in the list of base classes."""

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
class LongTailedCifar100(_LongTail, FastCifar100):
    """CIFAR-100-LT: CIFAR-100 with few training images of the last classes, augmented as for few epochs."""

    stratified: bool = True
    """Hold out the same fraction of every class."""


@dataclass(frozen=True)
class SyntheticLongTail(_LongTail, Synthetic):
    """Synthetic images with few training images of the last classes."""
