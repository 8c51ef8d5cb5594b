"""The mean of |cos| for signed features: all pairs are visited tile by tile, for the loss and the gradient at once.

No B x B tensor is ever allocated. Under `torch.compile` the whole forward pass is one opaque operator, so that large
batches compile too. The gradients are computed together with the values, so there is no second derivative.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..errors import DerivativeError
from .class_sums import Soft, classes_of, gradient, per_pair, same_class
from .normalize import accumulation_dtype, feature_gradient_, inverse_norms

FIRST_DERIVATIVE_ONLY = (
    "the tiled algorithm and the global batch have a first derivative only: for a second one compute the loss of the "
    "local batch with algorithm='pairs', or with form='mean' or 'abs_mean' and algorithm='class_sums'."
)
TILE = 512  # rows and columns of a tile: large enough for a fast matrix product, small enough for the cache


class PairSum(NamedTuple):
    """For a set of pairs: the sum of cosines, the sum of weights, and the gradient for the unit rows."""

    cosines: Tensor
    weights: Tensor
    pull: Tensor


def tiled(x: Tensor, labels: Tensor, ignored: Tensor | None, absolute: bool) -> tuple[Tensor, Tensor]:
    """Return s and d of a batch without a B x B matrix; only the first derivative is available."""
    measure = _measure if torch.compiler.is_compiling() else _measure_now
    return attach(x, *measure(x.detach(), labels, ignored, absolute, x.requires_grad))


def attach(
    x: Tensor, same: Tensor, other: Tensor, same_gradient: Tensor, other_gradient: Tensor, scale: float = 1.0
) -> tuple[Tensor, Tensor]:
    """Return precomputed values whose `backward` to `x` uses precomputed gradients."""
    same, other = _AttachedGradients.apply(x, same, other, same_gradient, other_gradient, scale)  # type: ignore[no-untyped-call]
    return same, other


def pair_sum(
    unit: Tensor, labels: Tensor, ignored: Tensor | None, rows: slice, *, same: bool, absolute: bool, pull: bool
) -> PairSum:
    """Sum over the pairs of `rows` with all other rows, tile by tile.

    Args:
        unit: (B, D) unit rows; an ignored row is all zeros.
        labels: (B,) class ids or (B, C) weights, of all rows.
        ignored: (B,) mask of the rows to exclude.
        rows: the rows to process. If these are all rows, each tile also covers its transpose, which halves the work.
        same: sum over same-class pairs if true, over the others if false.
        absolute: sum absolute values of the cosines.
        pull: whether to compute the gradient; otherwise it is empty.
    """
    start, stop, _ = rows.indices(len(unit))
    mirrored = (start, stop) == (0, len(unit))
    cosine_sum = torch.zeros((), dtype=accumulation_dtype(unit), device=unit.device)
    weight_sum = torch.zeros_like(cosine_sum)
    out = unit.new_zeros((stop - start if pull else 0), unit.shape[1])
    for top, left in _tiles(start, stop, len(unit), mirrored):
        above, beside = slice(top, min(top + TILE, stop)), slice(left, left + TILE)
        weights = same_class(labels[above], labels[beside], unit.dtype)
        if not same:
            weights.neg_().add_(1)
        weights.diagonal(top - left).zero_()  # a row does not form a pair with itself
        if ignored is not None:
            weights.masked_fill_(ignored[above, None] | ignored[beside], 0)
        cosines = unit[above] @ unit[beside].T
        times = 2 if mirrored and left != top else 1
        weight_sum += times * weights.sum()
        if absolute:
            weights.mul_(cosines.sign())  # |cos| = sign * cos, and the sign is also its derivative
        cosine_sum += times * torch.dot(cosines.view(-1), weights.view(-1))
        if pull:
            out[above.start - start : above.stop - start].addmm_(weights, unit[beside])
        if pull and times == 2:
            out[beside].addmm_(weights.T, unit[above])
    return PairSum(cosine_sum, weight_sum, out)


def _tiles(start: int, stop: int, size: int, mirrored: bool) -> Iterator[tuple[int, int]]:
    for top in range(start, stop, TILE):
        for left in range(top if mirrored else 0, size, TILE):
            yield top, left


def _measure_now(
    x: Tensor, labels: Tensor, ignored: Tensor | None, absolute: bool, backward: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return s, d and the gradient of each, from class sums where they are exact and from tiles elsewhere."""
    classes = classes_of(labels, ignored)
    inverse = inverse_norms(x, ignored)
    if isinstance(classes, Soft):
        unit = x * inverse[:, None]
        same = pair_sum(unit, classes.weights, ignored, slice(None), same=True, absolute=False, pull=backward)
        other = pair_sum(unit, classes.weights, ignored, slice(None), same=False, absolute=absolute, pull=backward)
        del unit
        (s, s_gradient), (d, d_gradient) = finish(x, inverse, same), finish(x, inverse, other)
        return s, d, s_gradient, d_gradient
    moments = classes.moments(x, inverse)
    s, d, *_ = classes.stats(moments)
    s_gradient = gradient(x, inverse, classes, moments, 1.0, 0.0) if backward else x.new_zeros(0)
    if absolute and bool((x < 0).any()):
        unit = x * inverse[:, None]
        other = pair_sum(unit, labels, ignored, slice(None), same=False, absolute=True, pull=backward)
        del unit
        d, d_gradient = finish(x, inverse, other)
    else:
        d_gradient = gradient(x, inverse, classes, moments, 0.0, 1.0) if backward else x.new_zeros(0)
    return s, d, s_gradient, d_gradient


def finish(x: Tensor, inverse: Tensor, part: PairSum) -> tuple[Tensor, Tensor]:
    """Return the mean over pairs and its gradient for the features, which overwrites that of the unit rows."""
    per = per_pair(part.weights)
    mean = (part.cosines * per).to(x.dtype)
    return mean, feature_gradient_(part.pull.mul_(2 * per), x, inverse) if len(part.pull) else part.pull


_measure = torch.library.custom_op("opl::measure", _measure_now, mutates_args=())


@_measure.register_fake
def _(x: Tensor, labels: Tensor, ignored: Tensor | None, absolute: bool, backward: bool) -> tuple[Tensor, ...]:
    gradients = [torch.empty_like(x) if backward else x.new_empty(0) for _ in range(2)]
    return x.new_empty(()), x.new_empty(()), *gradients


class _AttachedGradients(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, same: Tensor, other: Tensor, same_gradient: Tensor, other_gradient: Tensor, scale: float
    ) -> tuple[Tensor, Tensor]:
        ctx.scale = scale
        ctx.save_for_backward(x, same_gradient, other_gradient)
        return same.clone(), other.clone()

    @staticmethod
    def backward(ctx: Any, to_same: Tensor, to_other: Tensor) -> tuple[Tensor | None, ...]:
        x, same_gradient, other_gradient = ctx.saved_tensors
        out = (same_gradient * (to_same * ctx.scale)).addcmul_(other_gradient, to_other * ctx.scale)
        return first_derivative_only(out, x, FIRST_DERIVATIVE_ONLY), None, None, None, None, None


def first_derivative_only(gradient: Tensor, x: Tensor, sentence: str) -> Tensor:
    """Return the gradient unchanged; differentiating it again raises `DerivativeError` with this message."""
    if not torch.is_grad_enabled():
        return gradient
    guarded: Tensor = _FirstDerivativeOnly.apply(gradient, x, sentence)  # type: ignore[no-untyped-call]
    return guarded


class _FirstDerivativeOnly(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, gradient: Tensor, x: Tensor, sentence: str) -> Tensor:
        ctx.sentence = sentence
        return gradient.view_as(gradient)

    @staticmethod
    def backward(ctx: Any, _: Tensor) -> tuple[Tensor | None, ...]:
        raise DerivativeError(ctx.sentence)
