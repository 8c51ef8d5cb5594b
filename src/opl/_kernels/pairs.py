"""All pairs at once, by one B x B product: fastest for ordinary batches, with derivatives of any order."""

from typing import Any

import torch
from torch import Tensor

from .class_sums import Number, per_pair, same_class
from .normalize import feature_gradient_, full_precision, inverse_norms, is_traced


def pairs(x: Tensor, labels: Tensor, ignored: Tensor | None, absolute: bool) -> tuple[Tensor, Tensor]:
    """Return s and d of a batch from its full cosine matrix, with plain differentiable operations.

    Supports `torch.compile`, `torch.func` transforms and derivatives of any order.
    """
    unit = x * inverse_norms(x, ignored)[:, None]
    cosines = unit @ unit.T
    same = same_class(labels, labels, x.dtype)
    itself = torch.eye(len(x), dtype=torch.bool, device=x.device)
    other = (1 - same).masked_fill(itself, 0)
    same = same.masked_fill(itself, 0)
    per_same, per_other = _per_pair(same, ignored)
    of_others = cosines.abs() if absolute else cosines
    return (cosines * same).sum() * per_same, (of_others * other).sum() * per_other


def fast_pairs(x: Tensor, labels: Tensor, ignored: Tensor | None, absolute: bool) -> tuple[Tensor, Tensor]:
    """Return the same values with a handwritten gradient: one product forward, one backward."""
    same, other = _Pairs.apply(x, labels, ignored, absolute)  # type: ignore[no-untyped-call]
    return same, other


def _per_pair(same: Tensor, ignored: Tensor | None) -> tuple[Number, Number]:
    """Return one over the number of ordered same-class pairs and of other pairs, without ignored rows."""
    rows: Number = len(same)
    same_pairs: Number = same.sum()
    if ignored is not None:
        there = (~ignored).to(same.dtype)
        rows = there.sum()
        same_pairs = there @ same @ there
    if same.device.type == "cpu" and not is_traced():
        rows, same_pairs = float(rows), float(same_pairs)
    return per_pair(same_pairs), per_pair(rows * (rows - 1) - same_pairs)


def _inner(one: Tensor, other: Tensor) -> Tensor:
    """Return the inner product of two matrices; large ones row by row, because one long sum loses precision."""
    if one.numel() <= 1 << 20:
        return torch.dot(one.view(-1), other.view(-1))
    rows: Tensor = torch.linalg.vecdot(one, other)
    return rows.sum()


class _Pairs(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, labels: Tensor, ignored: Tensor | None, absolute: bool) -> tuple[Tensor, Tensor]:
        inverse = inverse_norms(x, ignored)
        unit = x * inverse[:, None]
        cosines = (unit @ unit.T).fill_diagonal_(0)
        same = same_class(labels, labels, x.dtype).fill_diagonal_(0)
        other = (
            1 - same
        )  # 1 on the diagonal does not matter: the cosine there is 0, and the gradient along u_i is projected out
        if absolute:
            other.mul_(cosines.sign())  # |cos| = sign * cos, and the sign is also its derivative
        per_same, per_other = _per_pair(same, ignored)
        ctx.given, ctx.per = (labels, ignored, absolute), (per_same, per_other)
        ctx.save_for_backward(x, inverse, unit, same, other)
        return _inner(cosines, same) * per_same, _inner(cosines, other) * per_other

    @staticmethod
    def backward(ctx: Any, to_same: Tensor, to_other: Tensor) -> tuple[Tensor | None, ...]:
        x, inverse, unit, same, other = ctx.saved_tensors
        if torch.is_grad_enabled():  # create_graph=True: use operations that can be differentiated again
            again = pairs(x, *ctx.given)
            return (*torch.autograd.grad(again, x, (to_same, to_other), create_graph=True), None, None, None)
        per_same, per_other = ctx.per
        weights = (same * (to_same * (2 * per_same))).addcmul_(other, to_other * (2 * per_other))
        with full_precision(x):
            return feature_gradient_(weights @ unit, x, inverse), None, None, None
