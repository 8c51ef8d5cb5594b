"""Unit features without division by zero, their gradient, and how the kernels behave in compiled graphs."""

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
    available = kind != "meta" if torch.compiler.is_compiling() else torch.amp.is_autocast_available(kind)
    if available and torch.is_autocast_enabled(kind):
        return torch.autocast(kind, enabled=False)
    return nullcontext()


def accumulation_dtype(x: Tensor) -> torch.dtype:
    """Return the dtype for sums and norms: float64, except on mps, which does not support it."""
    return torch.float32 if x.device.type == "mps" else torch.float64


def inverse_norms(x: Tensor, ignored: Tensor | None) -> Tensor:
    """Return (B,) one over the norm of each row; 0 for a zero row, which has no direction, and for an ignored row."""
    if torch.is_grad_enabled() or is_traced():
        return _differentiable_inverse_norms(x, ignored)
    ordinary = _ordinary_norms(x, ignored)
    if ordinary is not None:
        return ordinary.reciprocal_()
    norms: Tensor = torch.linalg.vector_norm(x, dim=1, dtype=accumulation_dtype(x))
    return norms.reciprocal().masked_fill_(_unusable(norms, x, ignored), 0).to(x.dtype)


def _differentiable_inverse_norms(x: Tensor, ignored: Tensor | None) -> Tensor:
    """Return the same with derivatives of any order: zero rows bypass the square root, whose slope at 0 is infinite."""
    ordinary = _ordinary_norms(x, ignored)
    if ordinary is not None:
        return ordinary.reciprocal()
    hidden = _unusable(torch.linalg.vector_norm(x.detach(), dim=1, dtype=accumulation_dtype(x)), x, ignored)
    norms: Tensor = torch.linalg.vector_norm(x.masked_fill(hidden[:, None], 1), dim=1, dtype=accumulation_dtype(x))
    return norms.reciprocal().masked_fill(hidden, 0).to(x.dtype)


def _ordinary_norms(x: Tensor, ignored: Tensor | None) -> Tensor | None:
    """Return the (B,) norms of rows that are neither zero nor ignored, in their own precision.

    None where that would not do, or cannot be known without a synchronization.
    """
    if x.device.type != "cpu" or ignored is not None or not len(x) or is_traced():
        return None
    norms: Tensor = torch.linalg.vector_norm(x, dim=1)
    low, high = (value.item() for value in torch.aminmax(norms.detach()))
    return norms if low > 1e-15 and high < 1e15 else None  # no zero rows, and no square left the range of fp32


def _unusable(norms: Tensor, x: Tensor, ignored: Tensor | None) -> Tensor:
    short: Tensor = norms <= torch.finfo(x.dtype).tiny
    return short if ignored is None else short | ignored


def unit_rows(x: Tensor) -> Tensor:
    """Scale rows to length 1, differentiably, in fp32 or fp64; a zero row stays zero and gets no gradient."""
    x = x if x.dtype in (torch.float32, torch.float64) else x.float()
    return x * _differentiable_inverse_norms(x, None)[:, None]


def feature_gradient_(pull: Tensor, x: Tensor, inverse: Tensor) -> Tensor:
    """Convert the gradient of the unit features to that of `x`, in place: (pull - <pull, u> u) / |x|.

    `u = x * inverse` is never stored; the products are ordered so that rows of length 1e-18 or 1e18 do not overflow.
    """
    along = torch.linalg.vecdot(pull, x) * inverse
    return pull.addcmul_(x, (along * inverse)[:, None], value=-1).mul_(inverse[:, None])
