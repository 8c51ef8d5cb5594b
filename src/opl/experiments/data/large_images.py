"""Data sets of images of any size, which stay encoded until a batch needs them: your folder, the Hub's, ImageNet.

Classes, channels, mean and std are determined once from the files and kept in the cache (see `read.serve`).
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, ClassVar, Literal

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
)
from ..types import DataSet, Images, Splits, derived
from .augment import ColorJitter, Flip, enabled
from .domains import Pacs
from .few_shot import MiniImageNet
from .read.cache import Contents, content_sums, hash_of, open_cached
from .read.catalog import CATALOG, CatalogEntry
from .read.find import find
from .read.listing import named_columns
from .read.serve import Crops, EncodedData, EncodedImages, load_class_folders, load_encoded
from .small_images import Cifar100, check_classes
from .split import split, subset
from .synthetic import Synthetic

MOST_WORKERS = 8
JPEG_QUALITY = 90


@dataclass(frozen=True)
class LargeImages(DataSet):
    """Base class of data sets of large images.

    In training, a random crop of each image is resized to `size` and flipped; otherwise the central crop is used.
    If the files have no splits, the fractions `test` and `val` of every class are held out.
    """

    root: str = ""
    """Folder of the images, as '<class>/<image>' or 'train/<class>/<image>', or of Parquet files."""
    size: Pixels = 224
    """Height and width of the images."""
    center: PositiveFraction = 224 / 256
    """Side of the central crop, as a fraction of the image's shorter side."""
    crop: PositiveFraction = 0.08
    """The smallest fraction of an image's area that a random crop takes."""
    flip: Fraction = 0.5
    """Probability of a horizontal flip."""
    jitter: Fraction = 0.0
    """Strength of brightness, contrast and saturation jitter; 0 disables it."""
    val: FractionBelowOne = 0.1
    """Fraction of the training images held out for validation, unless there are both a validation and a test set."""
    test: FractionBelowOne = 0.2
    """Fraction of the images held out for testing, if there is neither a test nor a validation set."""
    split_seed: SeedOrOfRun = 0
    """Random seed of the held-out images, equal for all runs; -1 uses the run's seed."""
    classes: CountOrZero = 0
    """Use only this many classes, from the first; 0 uses all."""
    per_class: CountOrZero = 0
    """Maximum number of training images per class; 0 uses all."""
    draft: bool = True
    """Decode JPEGs at a half, a quarter or an eighth of their size where the crop allows it."""
    workers: Annotated[int, Range(-1, 256)] = -1
    """Processes that decode; -1 uses one per core, at most 8. The images do not depend on it."""
    prefetch: Annotated[int, Range(1, 64)] = 2
    """Batches that each worker prepares in advance."""

    augment = derived(
        lambda data: enabled(Flip(data.flip), ColorJitter(data.jitter, data.jitter, data.jitter))
    )  # the random crop is made while an image is decoded
    channels = derived(lambda data: data._index().channels)
    num_classes = derived(lambda data: data.classes or len(data._index().class_names))
    mean = derived(lambda data: data._index().mean)
    std = derived(lambda data: data._index().std)

    def load(self, seed: int) -> Splits:
        """Split the images; none is decoded here."""
        self.check()
        index = self._index()
        check_classes(self.name, self.classes, len(index.class_names))
        seed = seed if self.split_seed == -1 else self.split_seed
        test = next((name for name in ("test", "validation") if name in index.parts), "")
        rows, held = _hold_out(index.labels("train"), 0.0 if test else self.test, seed)
        tested = self._part(index, test) if test else self._part(index, "train", held)
        if test == "test" and "validation" in index.parts:
            val = self._part(index, "validation")
        else:
            kept = index.labels("train")[rows]
            fit, chosen = _hold_out(kept, self.val, seed)
            rows, val = rows[fit], self._part(index, "train", rows[chosen])
        train = self._part(index, "train", rows, self.per_class, seed)
        return Splits(train, val, tested, index.class_names[: self.num_classes], index.where)

    def _part(
        self, index: EncodedData, name: str, rows: Tensor | None = None, per_class: int = 0, seed: int = 0
    ) -> Images:
        """Return some rows of a part, limited to the selected classes."""
        labels = index.labels(name)
        rows = torch.arange(len(labels)) if rows is None else rows
        rows = rows[subset(labels[rows], self.num_classes, per_class, seed=seed)]
        workers = self.workers
        if workers < 0:  # one per core, shared among the processes that torchrun started on this machine
            cores = (os.cpu_count() or 1) // int(os.environ.get("LOCAL_WORLD_SIZE", 1))
            workers = max(1, min(MOST_WORKERS, cores))
        mode = "L" if self.channels == 1 else "RGB"
        crops = Crops(self.size, mode, self.crop, self.center, self.draft, workers, self.prefetch)
        return EncodedImages.of(index.files(name, crops), labels, rows)

    def _index(self) -> EncodedData:
        raise NotImplementedError(f"{type(self).__name__} has no _index: define it in the class.")


@dataclass(frozen=True)
class ImageFolder(LargeImages):
    """Your own images, in class folders or Parquet files, or a data set of the Hub."""

    name: Name = "images"
    """The name of the data set, and of its folder in $OPL_DATA."""
    hub: str = ""
    """Its id on the Hub, such as 'timm/oxford-iiit-pet'; with `root`, it is not needed."""
    image_column: str = ""
    """The column of images in Parquet files; if empty, the usual names are tried."""
    label_column: str = ""
    """The column of labels in Parquet files; if empty, the usual names are tried."""

    def _index(self) -> EncodedData:
        return load_encoded(named_columns(self.name, self.hub, self.image_column, self.label_column), self.root)


@dataclass(frozen=True)
class ImageNet(LargeImages):
    """ImageNet-1k: 1,281,167 training images; its 50,000 validation images are the test set, which has labels.

    It is read from class folders ('train' and 'val') or from the Hub's Parquet files.
    """

    val: FractionBelowOne = 0.0
    """Fraction of the training images held out for validation."""

    name: ClassVar[str] = "imagenet"
    mean = (0.485, 0.456, 0.406)
    std = (0.229, 0.224, 0.225)
    channels = 3

    num_classes = derived(lambda data: data.classes or CATALOG["imagenet"].num_classes)

    def _index(self) -> EncodedData:
        return load_encoded(CATALOG[self.name], self.root)


@dataclass(frozen=True)
class JpegCopies(LargeImages):
    """Images of a small data set as JPEG files in the cache, to run the pipeline of large images on them.

    All domains of PACS are one data set of 7 classes; `cifar20` has 20 classes of CIFAR-100, the first of each
    superclass; `mini-imagenet` has base and novel classes together, 100 with 600 images each. The synthetic images
    differ in size and shape. With `root`, any folder of images is used instead.
    """

    of: Literal["pacs", "cifar100", "cifar20", "mini-imagenet", "synthetic"] = "synthetic"
    side: Annotated[int, Range(8, 4096)] = 64
    """Height and width of the images in the files; synthetic images vary in size."""

    name = derived(lambda data: f"{data.of}-jpegs")

    def _index(self) -> EncodedData:
        if self.root:
            return load_encoded(CatalogEntry(self.name), self.root)
        self.check()
        key = hash_of(self.side, self.classes)
        if self.of != "synthetic":
            files = find("cifar100" if self.of == "cifar20" else self.of)
            key = hash_of(self.side, content_sums(files.folder, files.all_files))
        folder, _ = open_cached(f"{self.name}-files", key, self._write)
        return load_class_folders(self.name, folder, f"{self.of} as JPEGs")

    def _write(self, folder: Path) -> Contents:
        from PIL import Image

        for part, images, names in self._images_to_copy():
            for number, row in enumerate(images.rows.tolist()):
                target = folder / part / names[int(images.labels[row])]
                target.mkdir(parents=True, exist_ok=True)
                image = Image.fromarray(images.pixels[row].permute(1, 2, 0).contiguous().numpy())
                wider, taller = (16 * (number % 3), 12 * (number % 4)) if self.of == "synthetic" else (0, 0)
                resized = image.resize((self.side + wider, self.side + taller), Image.Resampling.BICUBIC)
                resized.save(target / f"{number:05d}.jpg", quality=JPEG_QUALITY)
        return {}

    def _images_to_copy(self) -> Iterator[tuple[str, Images, tuple[str, ...]]]:
        """Yield parts, which are empty if the images have none, with their images and their class names."""
        if self.of == "mini-imagenet":
            base = MiniImageNet(size=self.side)
            splits = base.load(0)
            yield "", splits.train, splits.class_names
            yield from (("", *base.novel_classes(part)) for part in ("val", "test"))
            return
        if self.of == "pacs":
            splits = Pacs(size=self.side).load(0)
            yield "", replace(splits.train, rows=torch.arange(len(splits.train.labels))), splits.class_names
            return
        if self.of == "synthetic":
            classes = self.classes or 10
            data = Synthetic("mini-imagenet", classes=classes, pixels=64, rows=20 * classes, val=0, test=8 * classes)
            splits = data.load(0)
        else:
            splits = Cifar100(val=0).load(0)
        first = [splits.groups.index(group) for group in range(20)] if self.of == "cifar20" else range(100)
        for part, images in (("train", splits.train), ("test", splits.test)):
            rows = images.rows[torch.isin(images.labels[images.rows], torch.tensor(first))]
            yield part, replace(images, rows=rows), splits.class_names


def _hold_out(labels: Tensor, fraction: float, seed: int) -> tuple[Tensor, Tensor]:
    return split(labels, round(fraction * len(labels)), seed=seed, stratified=True)
