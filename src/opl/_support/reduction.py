"""Reduction of per-sample losses to one number."""

from typing import Literal, get_args

from torch import Tensor

from ..errors import OptionError, did_you_mean

Reduction = Literal["mean", "sum", "none"]


def reduce_losses(values: Tensor, reduction: Reduction) -> Tensor:
    """Reduce (B,) per-sample losses to their mean (0 for an empty batch) or sum, or return them unchanged."""
    check_reduction(reduction)
    return mean_or_zero(values) if reduction == "mean" else values.sum() if reduction == "sum" else values


def check_reduction(reduction: str) -> None:
    """Raise `OptionError` for an unknown reduction."""
    if reduction not in get_args(Reduction):
        raise OptionError(did_you_mean("reduction", reduction, get_args(Reduction)))


def mean_or_zero(values: Tensor) -> Tensor:
    """Return the mean, or 0 for an empty tensor."""
    return values.sum() / max(1, values.numel())
