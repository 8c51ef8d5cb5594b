"""Unit features without a division by zero, and the way back from their gradient to the features' own."""

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor


def is_traced() -> bool:
    """Inside `torch.compile` or a `torch.func` transform: plain operations only, and no look at a value."""
    return torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active()


def full_precision(x: Tensor) -> AbstractContextManager[object]:
    """No autocast inside: products of unit features need all their digits."""
    kind = x.device.type if isinstance(x, Tensor) else "cpu"
    if torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind):
        return torch.autocast(kind, enabled=False)
    return nullcontext()


def accumulation_dtype(x: Tensor) -> torch.dtype:
    """The type for sums and norms: float64, except on the one backend that has none."""
    return torch.float32 if x.device.type == "mps" else torch.float64


def inverse_norms(x: Tensor, ignored: Tensor | None) -> Tensor:
    """(B,) one over the length of each row; 0 for a row without a direction (all zeros) and for an ignored one."""
    if torch.is_grad_enabled() or is_traced():
        return _differentiable_inverse_norms(x, ignored)
    if x.device.type == "cpu" and ignored is None and len(x):
        norms: Tensor = torch.linalg.vector_norm(x, dim=1)
        low, high = (value.item() for value in torch.aminmax(norms))
        if low > 1e-15 and high < 1e15:  # nothing to hide, and no square left the range of fp32 on the way
            return norms.reciprocal_()
    norms = torch.linalg.vector_norm(x, dim=1, dtype=accumulation_dtype(x))
    return norms.reciprocal().masked_fill_(_unusable(norms, x, ignored), 0).to(x.dtype)


def _differentiable_inverse_norms(x: Tensor, ignored: Tensor | None) -> Tensor:
    """The same with derivatives of any order: rows without a direction never meet the root, whose slope is infinite."""
    hidden = _unusable(torch.linalg.vector_norm(x.detach(), dim=1, dtype=accumulation_dtype(x)), x, ignored)
    norms: Tensor = torch.linalg.vector_norm(x.masked_fill(hidden[:, None], 1), dim=1, dtype=accumulation_dtype(x))
    return norms.reciprocal().masked_fill(hidden, 0).to(x.dtype)


def _unusable(norms: Tensor, x: Tensor, ignored: Tensor | None) -> Tensor:
    short: Tensor = norms <= torch.finfo(x.dtype).tiny
    return short if ignored is None else short | ignored


def unit_rows(x: Tensor) -> Tensor:
    """Rows of length 1, differentiably, in fp32 or fp64; a zero row stays zero and gets no gradient."""
    x = x if x.dtype in (torch.float32, torch.float64) else x.float()
    return x * _differentiable_inverse_norms(x, None)[:, None]


def feature_gradient_(pull: Tensor, x: Tensor, inverse: Tensor) -> Tensor:
    """Turn the gradient of unit features into that of `x`, in place: (pull - <pull, u> u) / |x|.

    `u = x * inverse` is never stored; the products are ordered so that rows of length 1e-18 or 1e18 do not overflow.
    """
    along = torch.linalg.vecdot(pull, x) * inverse
    return pull.addcmul_(x, (along * inverse)[:, None], value=-1).mul_(inverse[:, None])
