"""The plain values that pass between the rooms: data -> model -> objective -> trainer -> results."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn


class Output(NamedTuple):
    """What every model returns: (B, D) features, the input of its classifier, and (B, C) logits."""

    features: Tensor
    logits: Tensor


class Batch(NamedTuple):
    """Images ready for the model, (B, C, H, W) floats; their labels; and their rows in the training set.

    `sample_weight` is what one image counts in a mean over the global batch, times the number of processes, because
    their gradients are averaged: an objective adds up its losses of images and multiplies with it, so that uneven and even
    empty shares of a batch train as one process would.
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
