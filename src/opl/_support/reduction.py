"""Losses of samples to one number."""

from typing import Literal, get_args

from torch import Tensor

from ..errors import OptionError, did_you_mean

Reduction = Literal["mean", "sum", "none"]


def reduce_losses(values: Tensor, reduction: Reduction) -> Tensor:
    """(B,) losses of samples as their mean (0 where there is none), their sum, or as they are."""
    check_reduction(reduction)
    return mean_or_zero(values) if reduction == "mean" else values.sum() if reduction == "sum" else values


def check_reduction(reduction: str) -> None:
    """Refuse a reduction that does not exist."""
    if reduction not in get_args(Reduction):
        raise OptionError(did_you_mean("reduction", reduction, get_args(Reduction)))


def mean_or_zero(values: Tensor) -> Tensor:
    """The mean, and 0 where there is nothing."""
    return values.sum() / max(1, values.numel())
