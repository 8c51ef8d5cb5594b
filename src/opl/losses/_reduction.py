"""Reduction of per-sample losses to one number."""

from typing import Literal, get_args

from torch import Tensor

from .._kernels.validate import mean_or_zero
from ..errors import OptionError, did_you_mean

Reduction = Literal["mean", "sum", "none"]
REDUCTIONS = get_args(Reduction)  # a constant: torch 2.6 cannot trace get_args


def reduce_losses(values: Tensor, reduction: Reduction, kept: Tensor | None = None) -> Tensor:
    """Reduce (B,) per-sample losses to their mean or sum, or return them; only rows in the mask `kept` count.

    As in `torch.nn.functional.cross_entropy`, the mean is over the rows that count, and `"none"` gives 0 for the
    others. Unlike there, the mean over no rows is 0, not NaN.
    """
    check_reduction(reduction)
    if reduction == "mean":
        return mean_or_zero(values, kept)
    if kept is not None:
        values = values.where(kept, 0)
    return values.sum() if reduction == "sum" else values


def check_reduction(reduction: str) -> None:
    """Raise `OptionError` for an unknown reduction."""
    if reduction not in REDUCTIONS:
        raise OptionError(did_you_mean("reduction", reduction, REDUCTIONS))
