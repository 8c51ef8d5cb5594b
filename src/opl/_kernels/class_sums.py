"""Class sums instead of pairs: O(B*D) time and memory, for signed means and for non-negative features."""

from typing import Any

import torch
from torch import Tensor

from .classes import Classes, Hard, Number
from .normalize import feature_gradient_, full_precision, inverse_norms


def class_sums(x: Tensor, classes: Classes) -> tuple[Tensor, Tensor]:
    """Return s and the signed d of a batch, computed from class sums."""
    same, other = _ClassSums.apply(x, classes)  # type: ignore[no-untyped-call]
    return same, other


def gradient(
    x: Tensor, inverse: Tensor, classes: Classes, moments: tuple[Tensor, ...], same: Number, other: Number
) -> Tensor:
    """Return the (B, D) gradient of `same * s + other * d` for the features, given the moments of the whole batch."""
    stats = classes.stats(moments)
    pull = classes.pull(moments[0], stats.total, 2 * same * stats.per_same, 2 * other * stats.per_other)
    return feature_gradient_(pull, x, inverse)


class _ClassSums(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, classes: Classes) -> tuple[Tensor, Tensor]:
        inverse = inverse_norms(x, classes.ignored)
        moments = classes.moments(x, inverse)
        stats = classes.stats(moments)
        ctx.classes, ctx.per = classes, (stats.per_same, stats.per_other)
        ctx.save_for_backward(x, inverse, moments[0], stats.total)
        return stats.same, stats.other

    @staticmethod
    def backward(ctx: Any, to_same: Tensor, to_other: Tensor) -> tuple[Tensor | None, ...]:
        x, inverse, sums, total = ctx.saved_tensors
        if torch.is_grad_enabled():  # create_graph=True: use operations that can be differentiated again
            again = _differentiable(x, ctx.classes)
            return (*torch.autograd.grad(again, x, (to_same, to_other), create_graph=True), None)
        per_same, per_other = ctx.per
        with full_precision(x):
            pull = ctx.classes.pull(sums, total, to_same * (2 * per_same), to_other * (2 * per_other))
            return feature_gradient_(pull, x, inverse), None


def _differentiable(x: Tensor, classes: Classes) -> tuple[Tensor, Tensor]:
    """Compute the same values with plain operations, for second derivatives."""
    inverse = inverse_norms(x, classes.ignored)
    if isinstance(classes, Hard):
        unit = x * inverse[:, None]
        sums = x.new_zeros(len(classes.counts), x.shape[1]).index_add(0, classes.ids, unit)
        directed = x.new_zeros(len(classes.counts)).index_add(0, classes.ids, (inverse > 0).to(x.dtype))
        stats = classes.stats((sums, directed))
    else:
        stats = classes.stats(classes.moments(x, inverse))
    return stats.same, stats.other
