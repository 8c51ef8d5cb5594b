"""Unit features without a division by zero, and the way back from their gradient to the features' own."""

import torch
from torch import Tensor


def watched() -> bool:
    """Inside `torch.compile` or a `torch.func` transform: plain operations only, and no look at a value."""
    return torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active()


def wide(x: Tensor) -> torch.dtype:
    """The type for sums and norms: float64, except on the one backend that has none."""
    return torch.float32 if x.device.type == "mps" else torch.float64


def inverse_norms(x: Tensor, ignored: Tensor | None) -> Tensor:
    """(B,) one over the length of each row; 0 for a row without a direction (all zeros) and for an ignored one."""
    norms = torch.linalg.vector_norm(x, dim=1, dtype=wide(x))
    unusable = norms <= torch.finfo(x.dtype).tiny
    if ignored is not None:
        unusable = unusable | ignored
    return norms.masked_fill(unusable, torch.inf).reciprocal().to(x.dtype)  # 1/inf is 0, and so is its derivative


def to_features_(pull: Tensor, x: Tensor, inverse: Tensor) -> Tensor:
    """Turn the gradient of unit features into that of `x`, in place: (pull - <pull, u> u) / |x|.

    `u = x * inverse` is never stored; the products are ordered so that rows of length 1e-18 or 1e18 do not overflow.
    """
    along = torch.linalg.vecdot(pull, x) * inverse
    return pull.addcmul_(x, (along * inverse)[:, None], value=-1).mul_(inverse[:, None])
