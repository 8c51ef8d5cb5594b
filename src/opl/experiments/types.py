"""Plain values passed between packages, and the protocols that settings implement."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, TypeVar, cast

import torch
from torch import Tensor, nn

from .._ranges import check_settings
from ..errors import OptionError

T = TypeVar("T")


class Output(NamedTuple):
    """What every model returns: (B, D) features, which are the classifier's input, and (B, C) logits."""

    features: Tensor
    logits: Tensor


class Batch(NamedTuple):
    """A batch ready for the model: (B, C, H, W) float images, their labels, and their rows in the training set.

    `sample_weight` is the weight of one image in a mean over the global batch, times the number of processes, because
    gradients are averaged over processes. An objective multiplies the sum of its per-image losses by it, so that uneven
    and even empty shards train as a single process would.
    """

    images: Tensor
    labels: Tensor
    rows: Tensor
    sample_weight: float


class Terms(NamedTuple):
    """What every objective returns: the loss to minimize, its named parts, and measures that are only logged."""

    total: Tensor
    parts: dict[str, Tensor]
    measures: Mapping[str, Tensor] = MappingProxyType({})


class TaskShape(NamedTuple):
    """What a method may need to build its objective.

    `counts` are the training images per class, `steps` the steps per epoch, and `teacher` the trained network of the
    run named by the recipe's `after`. `label_smoothing` is the label smoothing of the method's cross-entropy.
    """

    num_classes: int
    feature_dim: int
    counts: tuple[int, ...] = ()
    steps: int = 1
    teacher: nn.Module | None = None
    epochs: int = 1
    label_smoothing: float = 0.0


class Request(NamedTuple):
    """Images to read together: their indices within a part, and the seed of their random crops (None: central crops).

    They are the `positions` in a global batch of `total` images, for all of which random numbers are drawn.
    """

    rows: Tensor
    seed: int | None = None
    positions: slice = slice(None)
    total: int = 0


@dataclass(frozen=True)
class Images:
    """Decoded images of one part of a data set: (N, C, H, W) uint8 pixels (often memory-mapped) and (N,) labels.

    `rows` are the indices of this part's images in `pixels` and `labels`, which may hold images of other parts too.
    `domains` holds the domain index of each row of `pixels`, for data sets with domains.
    """

    pixels: Tensor
    labels: Tensor
    rows: Tensor
    domains: Tensor | None = None

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return the pixels and labels of some of this part's images, given their indices within this part."""
        chosen = self.rows[rows]
        return self.pixels[chosen], self.labels[chosen]

    @property
    def most_at_once(self) -> int | None:
        """The largest number of images to read together; None if there is no limit."""
        return None

    def serve(self, requests: Iterable[Request]) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield the pixels and labels of each request, in order; decoded images need no crops and are yielded whole."""
        return (self.take(request.rows) for request in requests)


class Splits(NamedTuple):
    """A data set divided into parts; `val` is empty unless a validation set was requested."""

    train: Images
    val: Images
    test: Images
    class_names: tuple[str, ...]
    source: str
    groups: tuple[int, ...] = ()
    """The superclass of each class, for data sets with superclasses."""
    domain_names: tuple[str, ...] = ()
    """The names of the domains, by index, for data sets with domains."""


EpochRecord = dict[str, Any]  # one line of metrics.jsonl: `epoch`, `train/*`, `val/*`, `s`, `d`, `seconds`, ...


def empty_part(like: Images) -> Images:
    """Return an empty part of the same data."""
    return replace(like, rows=torch.zeros(0, dtype=torch.long))


# Settings. Each is a frozen dataclass that inherits from its protocol, and with it the defaults of optional members.


class Augmentation(Protocol):
    """A random transform of training images, drawn independently for each image."""

    def __call__(
        self,
        images: Tensor,
        generator: torch.Generator,
        rows: slice | Tensor | None = None,
        total: int | None = None,
        /,
    ) -> Tensor:
        """Transform a batch, which may be only the `rows` of a global batch of `total` images."""
        ...


def derived(read: Callable[[Any], T]) -> T:
    """Define an attribute of a data set that is read from its files, or from another data set, when it is needed."""
    return cast(T, property(read))


class DataSet(Protocol):
    """The interface of a data set."""

    @property
    def name(self) -> str:
        """The name, used in messages and folder names."""
        ...

    @property
    def channels(self) -> int:
        """Channels of the images."""
        ...

    @property
    def size(self) -> int:
        """Height and width of the images."""
        ...

    @property
    def num_classes(self) -> int:
        """Number of classes after class selection."""
        ...

    @property
    def mean(self) -> tuple[float, ...]:
        """Mean of each channel."""
        ...

    @property
    def std(self) -> tuple[float, ...]:
        """Standard deviation of each channel."""
        ...

    @property
    def augment(self) -> tuple[Augmentation, ...]:
        """The augmentations of training images."""
        ...

    @property
    def balance_domains(self) -> bool:
        """Whether every batch has the same number of images of each domain."""
        return False

    @property
    def mirror_batches(self) -> bool:
        """Whether every batch is extended by the mirror images of its images."""
        return False

    @property
    def views(self) -> int:
        """How many independently augmented copies of each image a training batch has."""
        return 1

    @property
    def alternate_flip(self) -> bool:
        """Whether each image is flipped in every second epoch: half of them in even epochs, the others in odd ones."""
        return False

    @property
    def growing_sizes(self) -> tuple[tuple[float, int], ...]:
        """Fractions of training, each with the size that images are reduced to until then."""
        return ()

    def check(self) -> None:
        """Raise `OptionError` for settings out of range, or that no data can fulfill; nothing is read."""
        check_settings(self, "data.")

    def load(self, seed: int) -> Splits:
        """Read the data set and divide it into parts."""
        ...

    def novel_classes(self, part: str = "test") -> tuple[Images, tuple[str, ...]]:
        """Return images of classes that were not trained on, and the names of these classes."""
        raise OptionError(f"{self.name} has no novel classes: choose a run that was not trained on all classes.")


class Model(Protocol):
    """The interface of an architecture."""

    @property
    def scaling(self) -> tuple[float, float] | None:
        """Mean and standard deviation of pixels in [0, 1] that published weights need; None uses the data's."""
        return None

    def build(self, channels: int, num_classes: int) -> nn.Module:
        """Build the network with newly initialized weights."""
        ...

    def after(self, result: Mapping[str, Any]) -> "Model":
        """Return the model with the settings that the recipe's `after` run has found, given the result of that run."""
        return self

    def rebuilt(self, result: Mapping[str, Any]) -> "Model":
        """Return the model of a finished run of the recipe, given the result of that run."""
        return self


class HeadSettings(Protocol):
    """The interface of a classifier head."""

    @property
    def penalty_weight(self) -> float | None:
        """The weight of the head's penalty in the loss; None if the head adds no penalty."""
        return None

    def build(self, shape: TaskShape) -> nn.Module:
        """Build the layer."""
        ...


class Method(Protocol):
    """The interface of a training method."""

    @property
    def head(self) -> HeadSettings | None:
        """The classifier head that replaces the model's own; None keeps the model's."""
        return None

    @property
    def takes_pixels(self) -> bool:
        """Whether the method needs images in [0, 1] that are not normalized."""
        return False

    @property
    def opl(self) -> Any | None:
        """The settings of OPL in this method; None if the method does not use OPL."""
        return None

    def baseline(self) -> "Method":
        """Return the same method without OPL."""
        return self

    def build(self, shape: TaskShape) -> nn.Module:
        """Build the objective."""
        ...


class LabelNoise(Protocol):
    """The interface of label noise."""

    @property
    def seed(self) -> int:
        """The random seed of the corrupted labels; -1 uses the seed of the run."""
        ...

    def matrix(self, class_names: Sequence[str], groups: Sequence[int] = ()) -> Tensor:
        """Return the (C, C) transition matrix: row i holds the probabilities of the labels that class i may become."""
        ...
