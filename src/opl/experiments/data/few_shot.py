"""The few-shot data sets: trained on their base classes, tested on classes that no training has seen.

As the other data sets they are frozen values that load themselves as `Splits`; those hold the base classes only. The
new classes come from `novel_classes("val")` and `novel_classes("test")`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor

from ...errors import OptionError, did_you_mean
from ..types import Augmentation, DataSet, Images, Splits, empty_part
from .file_data_set import check_classes
from .photos import PhotoAugmentation
from .split import subset

if TYPE_CHECKING:
    from .readers.cache import DecodedData

if TYPE_CHECKING:
    pass


@dataclass(frozen=True)
class FewShotDataSet(PhotoAugmentation, DataSet):
    """What they share."""

    root: str = ""
    """Folder of the data set, in any of its layouts; if empty, $OPL_DATA is asked."""
    holdout: int = 0
    """Images of each base class held out for testing; 0 holds none, as RFS, and -1 those that the files hold out."""
    per_class: int = 0
    """At most so many training images of each base class; 0 takes all."""
    classes: int = 0
    """Only the first so many base classes; 0 takes all."""
    split_seed: int = 0
    """What chooses the held-out images, the same for all runs; -1 takes the seed of the run."""

    name: ClassVar[str]
    channels: ClassVar[int] = 3
    size: ClassVar[int] = 84
    all_classes: ClassVar[int] = 64
    new_classes: ClassVar[Mapping[str, int]] = {"val": 16, "test": 20}
    mean: ClassVar[tuple[float, ...]] = (120.39586422 / 255, 115.59361427 / 255, 104.54012653 / 255)
    std: ClassVar[tuple[float, ...]] = (70.68188272 / 255, 68.27635443 / 255, 72.54505529 / 255)

    @property
    def num_classes(self) -> int:
        """Base classes, after the choice of classes."""
        return self.classes or self.all_classes

    @property
    def augment(self) -> tuple[Augmentation, ...]:
        """Crop, jitter and flip, in the order of RFS, each unless it is switched off."""
        return (*self.steps.crop, *self.steps.jitter, *self.steps.flip)

    def load(self, seed: int) -> Splits:
        """The base classes, numbered in alphabetical order: `train`, no `val`, and as `test` what was held out.

        The first time it is decoded (see `cache`); `seed` matters only where `split_seed` is -1.
        """
        seed = seed if self.split_seed == -1 else self.split_seed
        check_classes(self.name, self.classes, self.all_classes)
        decoded = self._read("train", *(("extra",) if self.holdout else ()))
        part = decoded.parts["train"]
        labels, pixels = part.labels[decoded.label], part.pixels
        if extra := decoded.parts.get("extra"):
            fit, more = torch.arange(len(labels)), extra.labels[decoded.label]
            held = subset(more, self.classes, max(0, self.holdout), seed=seed)
            test = Images(extra.pixels, more, held)
        else:
            fit, held = hold_out(labels, self.holdout, part.labels.get("kept"), seed=seed)
            test = Images(pixels, labels, held[subset(labels[held], self.classes)])
        train = Images(pixels, labels, fit[subset(labels[fit], self.classes, self.per_class, seed=seed)])
        names = decoded.names[decoded.label][: self.num_classes]
        coarse = part.labels.get("coarse_label")
        groups = () if coarse is None else tuple(int(coarse[labels == each][0]) for each in range(self.num_classes))
        return Splits(train, empty_part(train), test, names, decoded.source, groups)

    def novel_classes(self, part: str = "test") -> tuple[Images, tuple[str, ...]]:
        """All images of the new classes, numbered from 0 in alphabetical order, and the names of these classes."""
        check_part(part)
        decoded = self._read(part)
        found = decoded.parts[part]
        first = self.all_classes + (self.new_classes["val"] if part == "test" else 0)
        labels = found.labels[decoded.label] - first
        names = decoded.names[decoded.label][first : first + self.new_classes[part]]
        return Images(found.pixels, labels, torch.arange(len(labels))), names

    def _read(self, *parts: str) -> "DecodedData":
        from .readers import cache

        return cache.load(self.name, self.root, parts)


def check_part(part: str) -> None:
    """Refuse a part that has no new classes."""
    if part not in ("val", "test"):
        raise OptionError(did_you_mean("part of new classes", part, ("val", "test")))


def hold_out(labels: Tensor, holdout: int, kept: Tensor | None = None, *, seed: int = 0) -> tuple[Tensor, Tensor]:
    """The rows to train on and the rows held out, `holdout` of each class, each in ascending order.

    Args:
        labels: (N,), integer class ids.
        holdout: 0 holds none, -1 all that are `kept`.
        kept: (N,), 1 for images that are to be held out first.
        seed: the same seed and labels give the same rows.

    Example:
        >>> hold_out(torch.tensor([0, 1, 0, 1]), 1, torch.tensor([0, 0, 1, 1]))
        (tensor([0, 1]), tensor([2, 3]))
    """
    everything = torch.arange(len(labels))
    if holdout == 0:
        return everything, everything[:0]
    first = torch.zeros_like(labels, dtype=torch.bool) if kept is None else kept.bool()
    if holdout == -1 and first.any():
        return everything[~first], everything[first]
    fewest = int(labels.bincount().min())
    if holdout == -1 or not 0 < holdout < fewest:
        there = "" if first.any() else "; these files hold no image out, so -1 has nothing to choose"
        raise OptionError(
            f"holdout={holdout} of {fewest} images of a class cannot be held out: give 0 to {fewest - 1}{there}."
        )
    out = torch.zeros_like(first)
    of_first = min(holdout, int(labels[first].bincount(minlength=int(labels.max()) + 1).min()))
    for pool, count in ((everything[first], of_first), (everything[~first], holdout - of_first)):
        if count:
            out[pool[subset(labels[pool], per_class=count, seed=seed)]] = True
    return everything[~out], everything[out]


@dataclass(frozen=True)
class CifarFS(FewShotDataSet):
    """CIFAR-FS: 600 photographs of each of CIFAR-100's classes, 64 base classes, 16 and 20 new ones; 32 x 32.

    Read from CIFAR-100 in the Hugging Face layout, whose training and test images it takes together, or from the
    pickles `CIFAR_FS_train.pickle` or `train.pickle` (and `val`, `test`). Where it is made of CIFAR-100, `holdout`
    takes the test images of CIFAR-100 first, so that 100 (or -1) holds out exactly these; the pickles do not tell them.
    """

    root: str = ""
    """Its folder, or CIFAR-100's; if empty, 'cifar-fs' and 'cifar100' in $OPL_DATA and then the Hub are asked."""

    name: ClassVar[str] = "cifar-fs"
    size: ClassVar[int] = 32
    mean: ClassVar[tuple[float, ...]] = (0.5071, 0.4867, 0.4408)
    std: ClassVar[tuple[float, ...]] = (0.2675, 0.2565, 0.2761)


@dataclass(frozen=True)
class MiniImageNet(FewShotDataSet):
    """miniImageNet: 600 photographs of each of 100 classes, 64 base classes, 16 and 20 new ones; 84 x 84.

    Read from `miniImageNet_category_split_*.pickle`, from `mini-imagenet-cache-*.pkl`, from `train.csv` (and `val`,
    `test`) with `images/`, from `train/<class>/<picture>`, or from Parquet files with the splits `train`, `validation`
    and `test`; pictures of another size are resized. The first of these layouts may come with more images of the base
    classes (`train_phase_val`): then these are the held-out ones, at most `holdout` of each class or with -1 all, and
    none of the 600 is taken from training.
    """

    padding: int = 8
    """Zero-pad by so much and crop at a random place; 0 does not."""

    name: ClassVar[str] = "mini-imagenet"


@dataclass(frozen=True)
class TieredImageNet(FewShotDataSet):
    """tieredImageNet: 779,165 photographs of 608 classes, 351 base classes, 97 and 160 unlike them; 84 x 84.

    Read from `train_images.npz` or `train_images_png.pkl` with `train_labels.pkl` (and `val`, `test`), from
    `train/<class>/<picture>`, or from Parquet files. `train_phase_val`, where it is there, is held out as in
    `MiniImageNet`. Decoded, it takes 16 GB of disk.
    """

    padding: int = 8
    """Zero-pad by so much and crop at a random place; 0 does not."""
    bgr: bool = False
    """Whether the arrays of `*_images.npz` have blue first, as OpenCV writes them; PNG and other pictures tell it."""

    name: ClassVar[str] = "tiered-imagenet"
    all_classes: ClassVar[int] = 351
    new_classes: ClassVar[Mapping[str, int]] = {"val": 97, "test": 160}

    def _read(self, *parts: str) -> "DecodedData":
        from .readers import cache

        return cache.load(self.name, self.root, parts, bgr=self.bgr)


FewShot = CifarFS | MiniImageNet | TieredImageNet
