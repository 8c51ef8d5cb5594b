"""Data sets of pictures of any size, which stay encoded until a batch needs them: your own folder, the Hub's, ImageNet.

Classes, channels, mean and std are found from the files once and kept in the cache (see `readers.picture_index`).
"""

import os
from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from torch import Tensor

from ..._ranges import (
    CountOrZero,
    Fraction,
    FractionBelowOne,
    Name,
    Pixels,
    PositiveFraction,
    Range,
    SeedOrOfRun,
    check_settings,
)
from ...errors import OptionError
from ..types import Augmentation, DataSet, Images, Splits
from .augment import ColorJitter, Flip
from .encoded import Decoding, EncodedImages
from .file_data_set import check_classes
from .read.catalog import CATALOG, CatalogEntry
from .read.picture_index import PictureIndex, open_index
from .read.picture_source import locate_pictures
from .split import split, subset

MOST_WORKERS = 8


@dataclass(frozen=True)
class PictureDataSet(DataSet):
    """Base class of data sets of pictures.

    In training, a random part of each picture is resized to `size` and flipped; otherwise the central part is taken.
    Without splits of their own, `test` and `val` of the pictures are held out, the same fraction of every class.
    """

    root: str = ""
    """Folder of the pictures, as '<class>/<picture>' or 'train/<class>/<picture>', or of Parquet files."""
    size: Pixels = 224
    """Height and width of the images."""
    center: PositiveFraction = 224 / 256
    """Side of the central part that is tested, as a fraction of the picture's shorter side."""
    crop: PositiveFraction = 0.08
    """The smallest fraction of a picture's area that a random crop takes."""
    flip: Fraction = 0.5
    """Probability of a horizontal flip."""
    jitter: Fraction = 0.0
    """Strength of brightness, contrast and saturation jitter; 0 disables it."""
    val: FractionBelowOne = 0.0
    """Fraction of the training pictures held out for validation, unless there is a validation set beside a test set."""
    test: FractionBelowOne = 0.2
    """Fraction of the pictures held out for testing, if there is neither a test nor a validation set."""
    split_seed: SeedOrOfRun = 0
    """Random seed of what is held out, equal for all runs; -1 uses the run's seed."""
    classes: CountOrZero = 0
    """Use only this many classes, from the first; 0 uses all."""
    per_class: CountOrZero = 0
    """Maximum number of training images per class; 0 uses all."""
    draft: bool = True
    """Decode JPEGs at a half, a quarter or an eighth of their size where the crop allows it."""
    workers: Annotated[int, Range(-1, 256)] = -1
    """Processes that decode; -1 takes one a core of this process, at most 8. The images do not depend on it."""
    prefetch: Annotated[int, Range(1, 64)] = 2
    """Batches that each of them prepares in advance."""

    @property
    def augment(self) -> tuple[Augmentation, ...]:
        """Flip and jitter; the random crop is made while a picture is decoded."""
        jitter = (ColorJitter(self.jitter, self.jitter, self.jitter),) if self.jitter else ()
        return (*((Flip(self.flip),) if self.flip else ()), *jitter)

    @property
    def channels(self) -> int:
        """1 if all pictures are gray, otherwise 3."""
        return self._index().channels

    @property
    def num_classes(self) -> int:
        """Number of classes after class selection."""
        return self.classes or len(self._index().class_names)

    @property
    def mean(self) -> tuple[float, ...]:
        """Mean of each channel."""
        return self._index().mean

    @property
    def std(self) -> tuple[float, ...]:
        """Standard deviation of each channel."""
        return self._index().std

    def check(self) -> None:
        """Raise an error for settings out of their range."""
        check_settings(self, "data.")

    def load(self, seed: int) -> Splits:
        """Divide the pictures into parts; none is decoded here."""
        self.check()
        index = self._index()
        check_classes(self.name, self.classes, len(index.class_names))
        seed = seed if self.split_seed == -1 else self.split_seed
        test = next((name for name in ("test", "validation") if name in index.splits), "")
        rows, held = _hold_out(_labels(index, "train"), 0.0 if test else self.test, seed)
        tested = self._part(index, test) if test else self._part(index, "train", held)
        if test == "test" and "validation" in index.splits:
            val = self._part(index, "validation")
        else:
            kept = _labels(index, "train")[rows]
            fit, chosen = _hold_out(kept, self.val, seed)
            rows, val = rows[fit], self._part(index, "train", rows[chosen])
        train = self._part(index, "train", rows, self.per_class, seed)
        return Splits(train, val, tested, index.class_names[: self.num_classes], index.source.where)

    def _part(
        self, index: PictureIndex, name: str, rows: Tensor | None = None, per_class: int = 0, seed: int = 0
    ) -> Images:
        """Return some rows of a split, those of the selected classes."""
        labels = _labels(index, name)
        rows = torch.arange(len(labels)) if rows is None else rows
        rows = rows[subset(labels[rows], self.num_classes, per_class, seed=seed)]
        return EncodedImages.of(index.files(name), labels, rows, self._decoding())

    def _decoding(self) -> Decoding:
        mode = "L" if self.channels == 1 else "RGB"
        workers = _workers() if self.workers < 0 else self.workers
        return Decoding(self.size, mode, self.crop, self.center, self.draft, workers, self.prefetch)

    def _index(self) -> PictureIndex:
        raise NotImplementedError(f"{type(self).__name__} has no _index: define it in the class.")


@dataclass(frozen=True)
class ImageFolder(PictureDataSet):
    """Your own pictures, in class folders: `<class>/<picture>`, or `train/<class>/<picture>` and so on."""

    name: Name = "images"
    """The name of the data set, and of its folder in $OPL_DATA."""
    val: FractionBelowOne = 0.1
    """Fraction of the training pictures held out for validation, unless there is a validation set beside a test set."""

    def _index(self) -> PictureIndex:
        return open_index(locate_pictures(unknown(self.name), self.root, hub=False))


@dataclass(frozen=True)
class HubImages(PictureDataSet):
    """A data set of the Hub, or its Parquet files in a folder, with a column of images and a column of labels."""

    name: Name = "hub-images"
    """The name of the data set, and of its folder in $OPL_DATA."""
    hub: str = ""
    """Its id on the Hub, such as 'timm/oxford-iiit-pet'; with `root`, it is not needed."""
    image_column: str = "image"
    label_column: str = "label"
    val: FractionBelowOne = 0.1
    """Fraction of the training pictures held out for validation, unless there is a validation set beside a test set."""

    def _index(self) -> PictureIndex:
        if not (self.hub or self.root):
            raise OptionError(
                "HubImages needs a data set: give its id with --data.hub, or its folder with --data.root."
            )
        known = unknown(self.name, self.hub, (self.image_column,), (self.label_column,))
        return open_index(locate_pictures(known, self.root))


@dataclass(frozen=True)
class ImageNet(PictureDataSet):
    """ImageNet-1k: 1,281,167 training images; its 50,000 validation images are the test set, which has labels.

    It is read from class folders ('train' and 'val') or from the Hub's Parquet files.
    """

    name: ClassVar[str] = "imagenet"
    mean: ClassVar[tuple[float, ...]] = (0.485, 0.456, 0.406)
    std: ClassVar[tuple[float, ...]] = (0.229, 0.224, 0.225)
    channels: ClassVar[int] = 3

    @property
    def num_classes(self) -> int:
        """Number of classes after class selection."""
        return self.classes or CATALOG[self.name].num_classes

    def _index(self) -> PictureIndex:
        return open_index(locate_pictures(CATALOG[self.name], self.root))


def unknown(
    name: str,
    hub: str = "",
    images: tuple[str, ...] = CatalogEntry.image_columns,
    labels: tuple[str, ...] = CatalogEntry.label_columns,
) -> CatalogEntry:
    """The catalog entry of a data set of which only its name and perhaps its columns are known."""
    license = "see where it comes from"
    return CatalogEntry(name, hub, {}, 0, "RGB", license, image_columns=images, label_columns=labels)


def _labels(index: PictureIndex, name: str) -> Tensor:
    return torch.from_numpy(index.labels(name))


def _hold_out(labels: Tensor, fraction: float, seed: int) -> tuple[Tensor, Tensor]:
    return split(labels, round(fraction * len(labels)), seed=seed, stratified=True)


def _workers() -> int:
    """One a core, shared among the processes that torchrun started on this machine."""
    return max(1, min(MOST_WORKERS, (os.cpu_count() or 1) // int(os.environ.get("LOCAL_WORLD_SIZE", 1))))
