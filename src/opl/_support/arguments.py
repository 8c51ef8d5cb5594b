"""Argument checks of losses and heads, and conversion to one shape and dtype."""

from typing import NamedTuple

import torch
from torch import Tensor

from .._kernels.validate import check_labels, check_vectors, may_read_values
from ..errors import LabelError, OptionError
from ..functional import check_ignore_index


class LabeledBatch(NamedTuple):
    """A batch with its class ids; `kept` masks the rows that count, and is None if all do.

    Rows that do not count have zeros in `x` and class id 0, so that a NaN or infinity there reaches nothing.
    """

    x: Tensor
    labels: Tensor
    kept: Tensor | None


def as_vectors(x: Tensor, width: int | None = None, name: str = "features") -> Tensor:
    """Return features or logits as (B, width) in fp32 or fp64, for any floating dtype."""
    x = check_vectors(x, name)
    if width is not None and x.shape[1] != width:
        raise OptionError(
            f"{name} have {x.shape[1]} numbers a sample, and this was built for {width}: build it with {x.shape[1]}."
        )
    return x


def as_labeled_batch(x: Tensor, labels: Tensor, num_classes: int, ignore_index: int) -> LabeledBatch:
    """Return (B, ...) rows with class ids from 0 to `num_classes - 1`, without those labeled `ignore_index`.

    On the CPU the labels are read: their range is checked, and a batch without ignored rows is returned as it is. On an
    accelerator reading would force a synchronization, so every batch is masked.
    """
    labels = as_integers(labels, x)
    kept = kept_rows(labels, x, ignore_index)
    if kept is not None:
        x = x.masked_fill(~kept.view(-1, *[1] * (x.ndim - 1)), 0)
        labels = labels.where(kept, 0)
    return LabeledBatch(x, check_range(labels, x, num_classes), kept)


def as_integers(labels: Tensor, x: Tensor) -> Tensor:
    """Return labels as (B,) integers, of any value."""
    labels = check_labels(labels, x)
    if labels.ndim != 1:
        raise LabelError("soft labels have no one class here: give (B,) class ids, for instance labels.argmax(1).")
    return labels


def kept_rows(labels: Tensor, x: Tensor, ignore_index: int) -> Tensor | None:
    """Return a (B,) mask of the rows whose label is not `ignore_index`; None if the labels can be read and all are."""
    check_ignore_index(ignore_index)
    kept = labels != ignore_index
    return None if may_read_values(x, ordinary=False) and bool(kept.all()) else kept


def check_range(labels: Tensor, x: Tensor, num_classes: int) -> Tensor:
    """Return labels if they are from 0 to `num_classes - 1`, which is checked on the CPU only."""
    if len(labels) and may_read_values(x, ordinary=False):
        low, high = (int(value) for value in torch.aminmax(labels))
        if low < 0 or high >= num_classes:
            wrong = low if low < 0 else high
            cure = (
                "class ids start at 0, and ignored rows carry ignore_index"
                if low < 0
                else f"build it with num_classes={high + 1}"
            )
            raise LabelError(
                f"label {wrong} does not exist: this was built for {num_classes} classes (0 to {num_classes - 1}); "
                f"{cure}, or check the data set's label map."
            )
    return labels


def check_steps(name: str, value: int) -> int:
    """Return the value if it is a valid number of steps; raise `OptionError` otherwise."""
    if value < 0:
        raise OptionError(f"{name} is {value}: give a number of steps from 0 up.")
    return value


def check_sizes(feature_dim: int, num_classes: int) -> None:
    """Raise `OptionError` unless both sizes are at least 1."""
    if num_classes < 1 or feature_dim < 1:
        raise OptionError(
            f"vectors for {num_classes} classes and {feature_dim} numbers a feature cannot be made: give at least one "
            "of each."
        )


def check_positive(name: str, value: float) -> float:
    """Return the value if it is a finite number above 0; raise `OptionError` otherwise."""
    if not 0 < value < float("inf"):
        raise OptionError(f"{name} is {value}: give a finite number above 0.")
    return value
