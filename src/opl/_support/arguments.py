"""What the losses and heads share: batches that fit, a mean over no sample, and a count of the steps."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from .._kernels.validate import check_labels, check_vectors, may_read_values
from ..errors import LabelError, OptionError, did_you_mean
from ..experiments.types import Batch

Reduction = Literal["mean", "sum", "none"]


def as_vectors(x: Tensor, width: int | None = None, name: str = "features") -> Tensor:
    """(B, width) features or logits, in fp32 or fp64 whatever came in."""
    x = check_vectors(x, name)
    if width is not None and x.shape[1] != width:
        raise OptionError(
            f"{name} have {x.shape[1]} numbers a sample, and this was built for {width}: build it with {x.shape[1]}."
        )
    return x


def as_class_ids(labels: Tensor, x: Tensor, num_classes: int) -> Tensor:
    """(B,) class ids from 0 to `num_classes - 1`; values are looked at on the CPU only."""
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


def reduce_losses(values: Tensor, reduction: Reduction) -> Tensor:
    """(B,) losses of samples as their mean (0 where there is none), their sum, or as they are."""
    check_reduction(reduction)
    return mean_or_zero(values) if reduction == "mean" else values.sum() if reduction == "sum" else values


def check_steps(name: str, value: int) -> int:
    """The value, if it is a number of steps."""
    if value < 0:
        raise OptionError(f"{name} is {value}: give a number of steps from 0 up.")
    return value


def check_reduction(reduction: str) -> None:
    """Refuse a reduction that does not exist."""
    if reduction not in get_args(Reduction):
        raise OptionError(did_you_mean("reduction", reduction, get_args(Reduction)))


def mean_or_zero(values: Tensor) -> Tensor:
    """The mean, and 0 where there is nothing."""
    return values.sum() / max(1, values.numel())


def ramp(step: Tensor, steps: int) -> Tensor | float:
    """How much of a setting is there: from 0 at step 0 to all of it after `steps` steps, in a straight line."""
    return (step / max(1, steps)).clamp(max=1) if steps else 1.0


class StepCounter(nn.Module):
    """A part with a setting that changes from step to step.

    It counts its own training calls, in a buffer, so that a checkpoint knows where it was; a training loop that knows
    its step says so with `set_step`, and then the setting is a function of that step and of nothing else.
    """

    step: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("step", torch.zeros((), dtype=torch.long))

    def set_step(self, step: int) -> None:
        """The next call is that of this step, counted from 0."""
        self.step.fill_(step)

    def tick(self) -> Tensor:
        """The step of this call; a call in training mode is counted."""
        now = self.step
        if self.training:
            self.step = now + 1  # not in place: a compiled backward would read the next step
        return now


class BetweenEpochs(nn.Module):
    """An objective with something to do between epochs, on every process; what it learns there is in its state."""

    monitor: str = ""
    """The number of the records by which it judges a model; with one of `test/` the run tests after every epoch."""

    def before_epoch(self, epoch: int, model: nn.Module, everything: Callable[[], Iterator[Batch]]) -> None:
        """An epoch begins, counted from 0; `everything()` are all training images, plain, of this process's share."""

    def after_epoch(self, model: nn.Module, record: Mapping[str, Any]) -> None:
        """An epoch ended with these numbers, which are the same on all processes."""


def check_sizes(num_classes: int, feature_dim: int) -> None:
    """Refuse a vector for each class that cannot be made."""
    if num_classes < 1 or feature_dim < 1:
        raise OptionError(
            f"vectors for {num_classes} classes and {feature_dim} numbers a feature cannot be made: give at least one "
            "of each."
        )


def check_positive(name: str, value: float) -> float:
    """The value, if it is a finite number above 0."""
    if not 0 < value < float("inf"):
        raise OptionError(f"{name} is {value}: give a finite number above 0.")
    return value
