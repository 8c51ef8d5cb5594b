"""The plain values that pass between the rooms, and what each room may ask of another's settings."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn

from ..errors import OptionError


class Output(NamedTuple):
    """What every model returns: (B, D) features, the input of its classifier, and (B, C) logits."""

    features: Tensor
    logits: Tensor


class Batch(NamedTuple):
    """Images ready for the model, (B, C, H, W) floats; their labels; and their rows in the training set.

    `sample_weight` is what one image counts in a mean over the global batch, times the number of processes, because
    their gradients are averaged: an objective adds up its losses of images and multiplies with it, so that uneven and
    even empty shares of a batch train as one process would.
    """

    images: Tensor
    labels: Tensor
    rows: Tensor
    sample_weight: float


class Terms(NamedTuple):
    """What every objective returns: the loss to minimize and its named parts, for the records."""

    total: Tensor
    parts: dict[str, Tensor]


class TaskShape(NamedTuple):
    """What a method may need to know to build its objective: `counts` are the training images of each class, `steps`
    those of an epoch, `teacher` the trained network of the run that this one comes after."""

    num_classes: int
    feature_dim: int
    counts: tuple[int, ...] = ()
    steps: int = 1
    teacher: nn.Module | None = None


@dataclass(frozen=True)
class Images:
    """A part of a data set, decoded: (N, C, H, W) uint8 pixels (often a memory map) and (N,) labels.

    `rows` (N,) are the images of this part, as rows of `pixels` and `labels`, which may hold more than this part.
    `domains` says of each row where the image is from, by number, in a data set that has domains.
    """

    pixels: Tensor
    labels: Tensor
    rows: Tensor
    domains: Tensor | None = None

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """The pixels and labels of some of this part's images, by their place in this part."""
        chosen = self.rows[rows]
        return self.pixels[chosen], self.labels[chosen]


class Splits(NamedTuple):
    """A data set cut into parts; `val` is empty where nobody asked for one."""

    train: Images
    val: Images
    test: Images
    class_names: tuple[str, ...]
    source: str
    groups: tuple[int, ...] = ()
    """The super-class of each class, where the data set has them."""
    domain_names: tuple[str, ...] = ()
    """Of the domains that the parts tell by number, where the data set has them."""


EpochRecord = dict[str, Any]  # a line of metrics.jsonl: `epoch`, `train/*`, `val/*`, `s`, `d`, `seconds`, ...


def empty_part(like: Images) -> Images:
    """An empty part of the same data."""
    return Images(like.pixels, like.labels, torch.zeros(0, dtype=torch.long))


# Settings. Each is a frozen dataclass that inherits its protocol, and with it the defaults of what is optional.


class Augmentation(Protocol):
    """What is done to training images, each image by its own chance."""

    def __call__(
        self,
        images: Tensor,
        generator: torch.Generator,
        rows: slice | Tensor | None = None,
        total: int | None = None,
        /,
    ) -> Tensor:
        """Change a batch of images, or the `rows` of a global batch of `total` images that it is."""
        ...


class DataSet(Protocol):
    """What the other rooms know of a data set."""

    @property
    def name(self) -> str:
        """Its name, in sentences and folders."""
        ...

    @property
    def channels(self) -> int:
        """Of its images."""
        ...

    @property
    def size(self) -> int:
        """Height and width of its images."""
        ...

    @property
    def num_classes(self) -> int:
        """After the choice of classes."""
        ...

    @property
    def mean(self) -> tuple[float, ...]:
        """Of each channel."""
        ...

    @property
    def std(self) -> tuple[float, ...]:
        """Of each channel."""
        ...

    @property
    def augment(self) -> tuple[Augmentation, ...]:
        """What is done to training images."""
        ...

    @property
    def balance_domains(self) -> bool:
        """Whether a batch has as many images of each domain."""
        return False

    @property
    def mirror_batches(self) -> bool:
        """Whether a batch is followed by its mirror image."""
        return False

    def load(self, seed: int) -> Splits:
        """Read it and cut it into parts."""
        ...

    def novel_classes(self, part: str = "test") -> tuple[Images, tuple[str, ...]]:
        """Images of classes that no training has seen, and the names of these classes."""
        raise OptionError(f"{self.name} has no classes beside those of the run: novel classes need some.")


class Model(Protocol):
    """What the other rooms know of an architecture."""

    def build(self, channels: int, num_classes: int) -> nn.Module:
        """The network, with new weights."""
        ...


class HeadSettings(Protocol):
    """What the other rooms know of a classifier head."""

    @property
    def penalty_weight(self) -> float | None:
        """The weight of what the head adds to the loss; None where it adds nothing."""
        return None

    def build(self, shape: TaskShape) -> nn.Module:
        """The layer."""
        ...


class Method(Protocol):
    """What the other rooms know of a training method."""

    @property
    def head(self) -> HeadSettings | None:
        """The classifier head that takes the place of the model's own."""
        return None

    @property
    def takes_pixels(self) -> bool:
        """Whether it needs images in [0, 1], not normalized."""
        return False

    @property
    def opl(self) -> Any | None:
        """The settings of OPL in it; None where OPL is no part of it."""
        return None

    def baseline(self) -> "Method":
        """The same method without OPL."""
        return self

    def build(self, shape: TaskShape) -> nn.Module:
        """Its objective."""
        ...


class LabelNoise(Protocol):
    """What the other rooms know of label noise."""

    @property
    def seed(self) -> int:
        """What chooses the wrong labels; -1 takes the seed of the run."""
        ...

    def matrix(self, class_names: Sequence[str], groups: Sequence[int] = ()) -> Tensor:
        """(C, C): in row i the probabilities of what a label i becomes."""
        ...
