"""Argument checks of losses and heads, and conversion to one shape and dtype."""

import torch
from torch import Tensor

from .._kernels.validate import check_labels, check_vectors, may_read_values
from ..errors import LabelError, OptionError


def as_vectors(x: Tensor, width: int | None = None, name: str = "features") -> Tensor:
    """Return features or logits as (B, width) in fp32 or fp64, for any floating dtype."""
    x = check_vectors(x, name)
    if width is not None and x.shape[1] != width:
        raise OptionError(
            f"{name} have {x.shape[1]} numbers a sample, and this was built for {width}: build it with {x.shape[1]}."
        )
    return x


def as_class_ids(labels: Tensor, x: Tensor, num_classes: int) -> Tensor:
    """Return labels as (B,) class ids from 0 to `num_classes - 1`; the range is checked on the CPU only."""
    labels = check_labels(labels, x)
    if labels.ndim != 1:
        raise LabelError("soft labels have no one class here: give (B,) class ids, for instance labels.argmax(1).")
    if len(labels) and may_read_values(x, ordinary=False):
        low, high = (int(value) for value in torch.aminmax(labels))
        if low < 0 or high >= num_classes:
            wrong = low if low < 0 else high
            cure = "class ids start at 0" if low < 0 else f"build it with num_classes={high + 1}"
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


def check_sizes(num_classes: int, feature_dim: int) -> None:
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
