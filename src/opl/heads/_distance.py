"""Squared distances from features to class vectors."""

import torch
from torch import Tensor
from torch.nn import functional as F

from .._kernels.normalize import accumulation_dtype, full_precision


def squared_distances(features: Tensor, centers: Tensor, log_variances: Tensor | None = None) -> Tensor:
    """Return (B, C) squared distances, each squared coordinate divided by its variance, in fp32 or fp64.

    Computed as `|f|^2 - 2 f.c + |c|^2` in float64: two products and no (B, C, D) difference, without the precision that
    this form loses in fp32.
    """
    kind = accumulation_dtype(features)
    with full_precision(features):
        f, c = features.to(kind), centers.to(kind)
        if log_variances is None:
            squares = f.square().sum(1, keepdim=True) + c.square().sum(1) - 2 * F.linear(f, c)
        else:
            precision = (-log_variances.to(kind)).exp()
            squares = F.linear(f.square(), precision) - 2 * F.linear(f, c * precision)
            squares = squares + (c.square() * precision).sum(1)
        return squares.clamp(min=0).to(torch.promote_types(features.dtype, torch.float32))
