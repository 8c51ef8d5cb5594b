"""Unit features without division by zero, their gradient, and how the kernels behave in compiled graphs."""

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import wraps
from typing import ParamSpec, TypeVar

import torch
from torch import Tensor
from torch._compile import _disable_dynamo

P = ParamSpec("P")
T = TypeVar("T")


def is_traced() -> bool:
    """Return whether `torch.compile` or a `torch.func` transform is active: plain operations only, no value reads."""
    return torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active()


def outside_graphs(function: Callable[P, T]) -> Callable[P, T]:
    """Make a compiled graph end before a function and continue after it, as `torch.compiler.disable` does.

    The compiler takes a second to import. Imported after a process group was made, it also keeps that group alive (by
    default arguments of `torch.distributed.nn`), and the group's threads may abort the process when Python ends.
    """
    disabled = _disable_dynamo(function)

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        if torch.compiler.is_compiling():
            result: T = disabled(*args, **kwargs)
            return result
        return function(*args, **kwargs)

    return call


def full_precision(x: Tensor) -> AbstractContextManager[object]:
    """Return a context that disables autocast, because products of unit features need full precision."""
    kind = x.device.type if isinstance(x, Tensor) else "cpu"
    # torch 2.6 cannot trace is_autocast_available; of the devices that code is compiled for, only meta has no autocast
    known = kind == "cpu" or torch.compiler.is_compiling()
    available = kind != "meta" if known else torch.amp.is_autocast_available(kind)
    if available and torch.is_autocast_enabled(kind):
        return torch.autocast(kind, enabled=False)
    return nullcontext()


def accumulation_dtype(x: Tensor) -> torch.dtype:
    """Return the dtype for sums and norms: float64, except on mps, which does not support it."""
    return torch.float32 if x.device.type == "mps" else torch.float64


SHORTEST = {torch.float16: 6.2e-5, torch.float32: 5e-38, torch.float64: 1e-300}
"""Rows shorter than this count as zero, by dtype: the gradient, which is inverse to the length, would overflow."""
MODERATE = 1e15  # squares of numbers between this and its inverse are in the range of fp32


def inverse_norms(x: Tensor, ignored: Tensor | None) -> Tensor:
    """Return (B,) one over the norm of each row, without derivatives; 0 for a row that is zero or ignored."""
    x = x.detach()
    ordinary = _ordinary_norms(x, ignored)
    if ordinary is not None:
        return ordinary.reciprocal_()
    norms, factors = _scaled_norms(x)
    if factors is not None:
        inverse = (factors / norms).masked_fill(norms <= SHORTEST[x.dtype] * factors, 0)
        return inverse if ignored is None else inverse.masked_fill(ignored, 0)
    lengths = torch.threshold(norms, SHORTEST[x.dtype], math.inf)
    lengths = lengths if ignored is None else lengths.masked_fill(ignored, math.inf)
    return lengths.reciprocal().to(x.dtype) if is_traced() else torch.reciprocal(lengths, out=x.new_empty(len(x)))


def unit_rows(x: Tensor, ignored: Tensor | None = None) -> Tensor:
    """Scale rows to length 1 in fp32 or fp64, with derivatives of any order.

    A row that is zero or ignored becomes zero and gets no gradient: it bypasses the square root, whose slope at 0 is
    infinite.
    """
    x = x if x.dtype in (torch.float32, torch.float64) else drop_short_halves(x.float(), x.dtype)
    ordinary = _ordinary_norms(x, ignored)
    if ordinary is not None:
        return x * ordinary.reciprocal()[:, None]
    norms, factors = _scaled_norms(x.detach())
    hidden = norms <= SHORTEST[x.dtype] * (1 if factors is None else factors)
    hidden = (hidden if ignored is None else hidden | ignored)[:, None]
    x = (x * _moderate_factors(x)[:, None]).masked_fill(hidden, 1)
    inverse: Tensor = torch.linalg.vector_norm(x, dim=1, dtype=accumulation_dtype(x)).reciprocal()
    return (x * inverse.to(x.dtype)[:, None]).masked_fill(hidden, 0)


def drop_short_halves(x: Tensor, dtype: torch.dtype) -> Tensor:
    """Set rows that are too short for a gradient in their original dtype, if that is fp16, to zero."""
    if dtype != torch.float16:
        return x
    return x.masked_fill((torch.linalg.vector_norm(x.detach(), dim=1) < SHORTEST[dtype])[:, None], 0)


def _ordinary_norms(x: Tensor, ignored: Tensor | None) -> Tensor | None:
    """Return the (B,) norms of rows that are neither zero nor ignored, in their own precision.

    None where that would not do, or cannot be known without a synchronization.
    """
    if x.device.type != "cpu" or ignored is not None or not x.shape[0] or is_traced():
        return None
    norms: Tensor = torch.linalg.vector_norm(x, dim=1)
    return norms if _are_moderate(norms.detach()) else None


def _are_moderate(values: Tensor, zeros: bool = False) -> bool:
    """Return whether all values are in the range of moderate numbers, where zeros may be in it too."""
    smallest, largest = torch.aminmax(values)
    low, high = smallest.item(), largest.item()
    if zeros and low == 0:
        low = values.where(values > 0, 1).min().item()
    return low > 1 / MODERATE and high < MODERATE


def _scaled_norms(x: Tensor) -> tuple[Tensor, Tensor | None]:
    """Return (B,) the norm of each row in fp64, times a factor where no type is wide enough for the squares."""
    if x.dtype != accumulation_dtype(x):
        return torch.linalg.vector_norm(x, dim=1, dtype=accumulation_dtype(x)), None
    factors = _moderate_factors(x)
    return torch.linalg.vector_norm(x * factors[:, None], dim=1), factors


def _moderate_factors(x: Tensor) -> Tensor:
    """Return (B,) powers of two that bring rows into a range where their squares are exact; 1 for ordinary rows."""
    powers = x.detach().abs().amax(1).log2().round()
    most = 100 if x.dtype == torch.float32 else 1000
    return torch.exp2(torch.where(powers.abs() < 40, 0, -powers).clamp(-most, most))


def feature_gradient_(pull: Tensor, x: Tensor, inverse: Tensor) -> Tensor:
    """Convert the gradient of the unit features to that of `x`, in place: (pull - <pull, u> u) / |x|.

    `u = x * inverse` is stored only where products with `x` may leave its range, or where that cannot be known.
    """
    if not x.shape[0] or x.device.type != "cpu" or is_traced() or not _are_moderate(inverse, zeros=True):
        return unit_gradient_(pull, x * inverse[:, None], inverse)
    along = torch.linalg.vecdot(pull, x) * inverse
    return pull.addcmul_(x, (along * inverse)[:, None], value=-1).mul_(inverse[:, None])


def unit_gradient_(pull: Tensor, unit: Tensor, inverse: Tensor) -> Tensor:
    """Do the same with given unit features."""
    along = (pull * unit).sum(1, keepdim=True)
    return pull.addcmul_(unit, along, value=-1).mul_(inverse.unsqueeze(1))
