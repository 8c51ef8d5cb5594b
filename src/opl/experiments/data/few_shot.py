"""Few-shot data sets: trained on base classes, tested on novel classes.

Like the other data sets, they are frozen values that load as `Splits`, which contain the base classes only. The novel
classes come from `novel_classes("val")` and `novel_classes("test")`.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

import torch
from torch import Tensor

from ..._ranges import LARGEST_COUNT, CountOrZero, Pixels, Range, SeedOrOfRun
from ...errors import OptionError, did_you_mean
from ..types import DataSet, Images, Splits, derived, empty_part
from .augment import ColorJitter, Flip, PadCrop, enabled
from .read.catalog import CATALOG
from .small_images import PhotoAugmentation, check_classes, superclasses_of
from .split import subset

if TYPE_CHECKING:
    from .read.serve import DecodedData


@dataclass(frozen=True)
class FewShotDataSet(PhotoAugmentation, DataSet):
    """Base class of the few-shot data sets."""

    root: str = ""
    """Folder of the data set, in any of its layouts; if empty, $OPL_DATA is searched."""
    holdout: Annotated[int, Range(-1, LARGEST_COUNT)] = 0
    """Images of each base class held out for testing; 0 for none, as in RFS; -1 for those held out by the files."""
    per_class: CountOrZero = 0
    """Maximum number of training images per base class; 0 uses all."""
    classes: CountOrZero = 0
    """Use only this many base classes, from the first; 0 uses all."""
    split_seed: SeedOrOfRun = 0
    """Random seed of the held-out images, equal for all runs; -1 uses the run's seed."""
    size: Pixels = 84
    """Height and width of the images; encoded images are resized once, when they are cached."""

    name: ClassVar[str]
    channels: ClassVar[int] = 3
    mean: ClassVar[tuple[float, ...]] = (120.39586422 / 255, 115.59361427 / 255, 104.54012653 / 255)
    std: ClassVar[tuple[float, ...]] = (70.68188272 / 255, 68.27635443 / 255, 72.54505529 / 255)

    num_classes = derived(lambda data: data.classes or CATALOG[data.name].classes["train"])
    augment = derived(  # in the order of RFS
        lambda data: enabled(PadCrop(data.padding), ColorJitter(data.jitter, data.jitter, data.jitter), Flip(data.flip))
    )

    def check(self) -> None:
        """Raise an error for more classes than exist."""
        check_classes(self.name, self.classes, CATALOG[self.name].classes["train"])

    def load(self, seed: int) -> Splits:
        """Load the base classes, in alphabetical order: `train`, an empty `val`, and the held-out images as `test`.

        The first call decodes the data set; `seed` matters only if `split_seed` is -1.
        """
        seed = seed if self.split_seed == -1 else self.split_seed
        self.check()
        decoded = self._read("train", *(("extra",) if self.holdout else ()))
        part = decoded.parts["train"]
        labels, pixels = part.labels, part.pixels
        if extra := decoded.parts.get("extra"):
            fit, held = torch.arange(len(labels)), subset(extra.labels, self.classes, max(0, self.holdout), seed=seed)
            test = Images(extra.pixels, extra.labels, held)
        else:
            fit, held = hold_out(labels, self.holdout, part.others.get("kept"), seed=seed)
            test = Images(pixels, labels, held[subset(labels[held], self.classes)])
        train = Images(pixels, labels, fit[subset(labels[fit], self.classes, self.per_class, seed=seed)])
        names, groups = decoded.class_names[: self.num_classes], superclasses_of(part, self.num_classes)
        return Splits(train, empty_part(train), test, names, decoded.source, groups)

    def novel_classes(self, part: str = "test") -> tuple[Images, tuple[str, ...]]:
        """Return all images of the novel classes, numbered from 0 in alphabetical order, and the class names."""
        check_part(part)
        decoded = self._read(part)
        counts = CATALOG[self.name].classes
        first = counts["train"] + (counts["val"] if part == "test" else 0)
        last = first + counts[part]
        return decoded.parts[part].classes(first, last), decoded.class_names[first:last]

    def _read(self, *parts: str) -> "DecodedData":
        from .read import serve

        return serve.load(self.name, self.root, parts, size=self.size)


def check_part(part: str) -> None:
    """Raise an error if a part has no novel classes."""
    if part not in ("val", "test"):
        raise OptionError(did_you_mean("part of novel classes", part, ("val", "test")))


def hold_out(labels: Tensor, holdout: int, kept: Tensor | None = None, *, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Return the training rows and the held-out rows, `holdout` of each class, both in ascending order.

    Args:
        labels: (N,), integer class ids.
        holdout: images per class; 0 holds out none, -1 exactly the images marked by `kept`.
        kept: (N,), 1 for images to hold out first.
        seed: the same seed and labels yield the same rows.

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
        hint = "" if first.any() else " (-1 needs files that hold images out)"
        raise OptionError(
            f"holdout={holdout} of {fewest} images per class is invalid: must be 0 to {fewest - 1}{hint}."
        )
    out = torch.zeros_like(first)
    of_first = min(holdout, int(labels[first].bincount(minlength=int(labels.max()) + 1).min()))
    for pool, count in ((everything[first], of_first), (everything[~first], holdout - of_first)):
        if count:
            out[pool[subset(labels[pool], per_class=count, seed=seed)]] = True
    return everything[~out], everything[out]


@dataclass(frozen=True)
class CifarFS(FewShotDataSet):
    """CIFAR-FS: 600 images of each class of CIFAR-100; 64 base, 16 validation and 20 test classes; 32 x 32.

    It is read from CIFAR-100 in the Hugging Face layout, combining its training and test images, or from the pickles
    `CIFAR_FS_train.pickle` or `train.pickle` (and `val`, `test`). When it is built from CIFAR-100, `holdout` takes
    CIFAR-100's test images first, so that 100 (or -1) holds out exactly these; the pickles do not identify them.
    """

    root: str = ""
    """Its folder or CIFAR-100's; if empty, 'cifar-fs' and 'cifar100' in $OPL_DATA and then the Hub are searched."""

    size: Pixels = 32
    """Height and width of the images, which must match the files."""

    name: ClassVar[str] = "cifar-fs"
    mean: ClassVar[tuple[float, ...]] = (0.5071, 0.4867, 0.4408)
    std: ClassVar[tuple[float, ...]] = (0.2675, 0.2565, 0.2761)


@dataclass(frozen=True)
class MiniImageNet(FewShotDataSet):
    """miniImageNet: 600 images of each of 100 classes; 64 base, 16 validation and 20 test classes; 84 x 84.

    It is read from `miniImageNet_category_split_*.pickle`, from `mini-imagenet-cache-*.pkl`, from `train.csv` (and
    `val`, `test`) with `images/`, from `train/<class>/<image>`, or from Parquet files with the splits `train`,
    `validation` and `test`; images of another size are resized. The first layout may include further images of the
    base classes (`train_phase_val`). In that case these are held out, at most `holdout` per class or all with -1, and
    none of the 600 is taken from training.
    """

    padding: Annotated[int, Range(0, 256)] = 8
    """Zero-pad by this many pixels and crop at a random position; 0 disables it."""

    name: ClassVar[str] = "mini-imagenet"


@dataclass(frozen=True)
class TieredImageNet(FewShotDataSet):
    """tieredImageNet: 779,165 images of 351 base, 97 validation and 160 test classes, dissimilar; 84 x 84.

    It is read from `train_images.npz` or `train_images_png.pkl` with `train_labels.pkl` (and `val`, `test`), from
    `train/<class>/<image>`, or from Parquet files. If `train_phase_val` is present, it is held out as in
    `MiniImageNet`. Decoded, it takes 16 GB of disk space.
    """

    padding: Annotated[int, Range(0, 256)] = 8
    """Zero-pad by this many pixels and crop at a random position; 0 disables it."""
    bgr: bool = False
    """Whether the arrays in `*_images.npz` are BGR, as OpenCV writes them; encoded images define their order."""

    name: ClassVar[str] = "tiered-imagenet"

    def _read(self, *parts: str) -> "DecodedData":
        from .read import serve

        return serve.load(self.name, self.root, parts, bgr=self.bgr, size=self.size)
