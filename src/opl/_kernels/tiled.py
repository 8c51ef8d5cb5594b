"""The mean of |cos| of signed features, or of cos^2: all pairs, tile by tile, for the loss and the gradient at once.

No B x B tensor is ever allocated. The mean of cos^2 needs no pairs either where the rows are many and the classes few:
with G_c the sum of u u^T over class c, the squared cosines of two classes sum to <G_c, G_c'>, in O(B*D^2). Under
`torch.compile` the whole forward pass is one opaque operator, so that large batches compile too. The gradients are
computed together with the values, so there is no second derivative.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..errors import DerivativeError
from .class_sums import Hard, Soft, classes_of, gradient, per_pair, same_class
from .normalize import accumulation_dtype, feature_gradient_, inverse_norms, is_traced
from .pairs import Kind, cross_pairs, cross_sums
from .validate import may_read_values

FIRST_DERIVATIVE_ONLY = (
    "the tiled algorithm and the global batch have a first derivative only: for a second one compute the loss of the "
    "local batch with algorithm='pairs', or with form='mean' or 'abs_mean' and algorithm='class_sums'."
)
CROSS_SMALL = 2_000_000  # up to this size of B*R*D, one small product is cheaper than class sums
CROSS_TILED_FROM = 1 << 20  # above this number of pairs with references, tiles are faster than one B x R matrix
GRAM_ROWS = 2  # from this many rows per dimension (and per four classes), D x D sums are faster than tiles
TILE = 512  # rows and columns of a tile: large enough for a fast matrix product, small enough for the cache


class PairSum(NamedTuple):
    """For a set of pairs: the sum of cosines, the sum of weights, and the gradient for the unit rows."""

    cosines: Tensor
    weights: Tensor
    pull: Tensor


def tiled(x: Tensor, labels: Tensor, ignored: Tensor | None, kind: Kind) -> tuple[Tensor, Tensor]:
    """Return s and d of a batch without a B x B matrix; only the first derivative is available."""
    measure = _measure if torch.compiler.is_compiling() else _measure_now
    return attach(x, *measure(x.detach(), labels, ignored, kind, x.requires_grad))


def cross(
    x: Tensor, labels: Tensor, ignored: Tensor | None, split: int, kind: Kind, nonnegative: bool | None
) -> tuple[Tensor, Tensor]:
    """Return s and d over the pairs of the first `split` rows with the others, by the fastest exact algorithm."""
    size = split * (len(x) - split)
    if labels.ndim == 2 and ignored is not None:
        labels = labels.masked_fill(ignored[:, None], 0)
    if is_traced() or size * x.shape[1] <= CROSS_SMALL or not may_read_values(x):
        return cross_pairs(x, labels, ignored, split, kind)
    if nonnegative is None:
        nonnegative = bool((x.detach() >= 0).all())
    if kind == "signed" or (kind == "absolute" and nonnegative):
        return cross_sums(x, labels, ignored, split)
    return (cross_pairs if size <= CROSS_TILED_FROM else cross_tiled)(x, labels, ignored, split, kind)


def cross_tiled(x: Tensor, labels: Tensor, ignored: Tensor | None, split: int, kind: Kind) -> tuple[Tensor, Tensor]:
    """Return s and d over the pairs of the first `split` rows with the others, without a matrix of all of them."""
    first, rest = slice(0, split), slice(split, len(x))
    with torch.no_grad():
        inverse = inverse_norms(x, ignored)
        unit = x.detach() * inverse[:, None]

        def tiles(same: bool, of: Kind) -> tuple[Tensor, Tensor]:
            upper = pair_sum(unit, labels, ignored, first, columns=rest, same=same, kind=of, pull=True)
            lower = pair_sum(unit, labels, ignored, rest, columns=first, same=same, kind=of, pull=True)
            both = PairSum(upper.cosines, upper.weights, torch.cat([upper.pull, lower.pull]))
            return finish(x.detach(), inverse, both, of, orders=1)

        (s, s_gradient), (d, d_gradient) = tiles(True, "signed"), tiles(False, kind)
    return attach(x, s, d, s_gradient, d_gradient)


def attach(
    x: Tensor, same: Tensor, other: Tensor, same_gradient: Tensor, other_gradient: Tensor, scale: float = 1.0
) -> tuple[Tensor, Tensor]:
    """Return precomputed values whose `backward` to `x` uses precomputed gradients."""
    same, other = _AttachedGradients.apply(x, same, other, same_gradient, other_gradient, scale)  # type: ignore[no-untyped-call]
    return same, other


def pair_sum(
    unit: Tensor,
    labels: Tensor,
    ignored: Tensor | None,
    rows: slice,
    *,
    columns: slice = slice(None),
    same: bool,
    kind: Kind,
    pull: bool,
) -> PairSum:
    """Sum over the pairs of `rows` with `columns`, tile by tile; a row forms no pair with itself.

    Args:
        unit: (B, D) unit rows; an ignored row is all zeros.
        labels: (B,) class ids or (B, C) weights, of all rows.
        ignored: (B,) mask of the rows to exclude.
        rows: the rows to process. If these are all rows, and so are `columns`, each tile also covers its transpose,
            which halves the work.
        columns: the rows that they form pairs with, by default all.
        same: sum over same-class pairs if true, over the others if false.
        kind: sum the cosines, their absolute values or their squares.
        pull: whether to compute the gradient; otherwise it is empty.
    """
    start, stop, _ = rows.indices(len(unit))
    begin, end, _ = columns.indices(len(unit))
    mirrored = (start, stop) == (begin, end) == (0, len(unit))
    cosine_sum = torch.zeros((), dtype=accumulation_dtype(unit), device=unit.device)
    weight_sum = torch.zeros_like(cosine_sum)
    out = unit.new_zeros((stop - start if pull else 0), unit.shape[1])
    for top, left in _tiles(start, stop, begin, end, mirrored):
        above, beside = slice(top, min(top + TILE, stop)), slice(left, min(left + TILE, end))
        weights = same_class(labels[above], labels[beside], unit.dtype)
        if not same:
            weights.neg_().add_(1)
        if abs(top - left) < TILE:
            weights.diagonal(top - left).zero_()  # a row does not form a pair with itself
        if ignored is not None:
            weights.masked_fill_(ignored[above, None] | ignored[beside], 0)
        cosines = unit[above] @ unit[beside].T
        times = 2 if mirrored and left != top else 1
        weight_sum += times * weights.sum()
        if kind == "absolute":
            weights.mul_(cosines.sign())  # |cos| = sign * cos, and the sign is also its derivative
        elif kind == "squared":
            weights.mul_(cosines)  # cos^2 = cos * cos, and its derivative is twice that factor
        cosine_sum += times * torch.dot(cosines.view(-1), weights.view(-1))
        if pull:
            out[above.start - start : above.stop - start].addmm_(weights, unit[beside])
        if pull and times == 2:
            out[beside].addmm_(weights.T, unit[above])
    return PairSum(cosine_sum, weight_sum, out)


def _tiles(start: int, stop: int, begin: int, end: int, mirrored: bool) -> Iterator[tuple[int, int]]:
    for top in range(start, stop, TILE):
        for left in range(top if mirrored else begin, end, TILE):
            yield top, left


def _measure_now(
    x: Tensor, labels: Tensor, ignored: Tensor | None, kind: str, backward: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return s, d and the gradient of each, from class sums where they are exact and from tiles elsewhere."""
    of: Kind = "squared" if kind == "squared" else "absolute" if kind == "absolute" else "signed"
    classes = classes_of(labels, ignored)
    inverse = inverse_norms(x, ignored)
    every = slice(None)
    if isinstance(classes, Soft):
        unit = x * inverse[:, None]
        same = pair_sum(unit, classes.weights, ignored, every, same=True, kind="signed", pull=backward)
        other = pair_sum(unit, classes.weights, ignored, every, same=False, kind=of, pull=backward)
        del unit
        (s, s_gradient), (d, d_gradient) = finish(x, inverse, same), finish(x, inverse, other, of)
        return s, d, s_gradient, d_gradient
    moments = classes.moments(x, inverse)
    s, d, *_ = classes.stats(moments)
    s_gradient = gradient(x, inverse, classes, moments, 1.0, 0.0) if backward else x.new_zeros(0)
    if of == "squared" or (of == "absolute" and bool((x < 0).any())):
        unit = x * inverse[:, None]
        if of == "squared" and len(x) >= GRAM_ROWS * max(x.shape[1], 4 * len(classes.counts)):
            other = _squared_sum(unit, classes)
        else:
            other = pair_sum(unit, labels, ignored, every, same=False, kind=of, pull=backward)
        del unit
        d, d_gradient = finish(x, inverse, other, of)
    else:
        d_gradient = gradient(x, inverse, classes, moments, 0.0, 1.0) if backward else x.new_zeros(0)
    return s, d, s_gradient, d_gradient


def _squared_sum(unit: Tensor, classes: Hard) -> PairSum:
    """Sum the squared cosines of pairs of different classes, in O(B*D^2): every class with those before and after it.

    The sum of u u^T over all classes but one is never a difference, so that a few pairs keep their digits.
    """
    order, sizes = classes.ids.argsort(stable=True), classes.sizes.tolist()
    ordered = unit[order]
    pulls = torch.zeros_like(ordered)
    for direction in (1, -1):
        gram = unit.new_zeros(unit.shape[1], unit.shape[1])
        for u, pull in list(zip(torch.split(ordered, sizes), torch.split(pulls, sizes), strict=True))[::direction]:
            pull.addmm_(u, gram)
            gram.addmm_(u.T, u)
    wide = accumulation_dtype(unit)
    cosines = (ordered * pulls).sum(dtype=wide)
    counts = classes.counts.to(wide)
    weights = counts.sum().square() - counts.square().sum()
    return PairSum(cosines, weights, torch.empty_like(unit).index_copy_(0, order, pulls))


def finish(x: Tensor, inverse: Tensor, part: PairSum, kind: Kind = "signed", orders: int = 2) -> tuple[Tensor, Tensor]:
    """Return the mean over pairs and its gradient for the features, which overwrites that of the unit rows.

    `orders` is 2 where every pair is counted in both orders.
    """
    per = per_pair(part.weights)
    mean = (part.cosines * per).to(x.dtype)
    slope = 2 * orders if kind == "squared" else orders
    return mean, feature_gradient_(part.pull.mul_(slope * per), x, inverse) if len(part.pull) else part.pull


_measure = torch.library.custom_op("opl::measure", _measure_now, mutates_args=())


@_measure.register_fake
def _(x: Tensor, labels: Tensor, ignored: Tensor | None, kind: str, backward: bool) -> tuple[Tensor, ...]:
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
