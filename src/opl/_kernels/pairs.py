"""All pairs at once, by one B x B product: fastest for ordinary batches, with derivatives of any order."""

from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from .class_sums import Number, per_pair, same_class
from .normalize import (
    accumulation_dtype,
    full_precision,
    inverse_norms,
    is_traced,
    unit_gradient_,
    unit_rows,
)

Kind = Literal["signed", "absolute", "squared"]  # of which function of the cosines d is the mean


class Weights(NamedTuple):
    """The weights of 1 - s and of d in a loss; by default the loss is 1 - s."""

    apart: float = 1.0
    other: float = 0.0

    def combine(self, apart: Tensor, other: Tensor) -> Tensor:
        """Return the loss, given 1 - s and d."""
        apart = apart if self.apart == 1 else self.apart * apart
        return torch.add(apart, other, alpha=self.other) if self.other else apart


def of_cosines(cosines: Tensor, kind: Kind) -> Tensor:
    """Return the cosines of different classes as d takes the mean of them."""
    return cosines if kind == "signed" else cosines.abs() if kind == "absolute" else cosines.square()


def pairs(x: Tensor, labels: Tensor, ignored: Tensor | None, kind: Kind) -> tuple[Tensor, Tensor]:
    """Return s and d of a batch from its full cosine matrix, with plain differentiable operations.

    Supports `torch.compile`, `torch.func` transforms and derivatives of any order.
    """
    unit = unit_rows(x, ignored)
    cosines = unit @ unit.T
    same = same_class(labels, labels, x.dtype)
    itself = torch.eye(len(x), dtype=torch.bool, device=x.device)
    other = (1 - same).masked_fill(itself, 0)
    same = same.masked_fill(itself, 0)
    per_same, per_other = _per_pair(same, ignored)
    return (cosines * same).sum() * per_same, (of_cosines(cosines, kind) * other).sum() * per_other


def fast_pairs(
    x: Tensor, labels: Tensor, ignored: Tensor | None, kind: Kind, weights: Weights
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the loss, s and d with a handwritten gradient: one product forward, one backward."""
    function = _Pairs if x.device.type == "cpu" or labels.ndim == 2 else _DevicePairs
    loss, same, other = function.apply(x, labels, ignored, kind, weights)  # type: ignore[no-untyped-call]
    return loss, same, other


def _per_pair(same: Tensor, ignored: Tensor | None) -> tuple[Number, Number]:
    """Return one over the number of ordered same-class pairs and of other pairs, without ignored rows."""
    rows: Number = same.shape[0]
    same_pairs: Number = same.sum()
    if ignored is not None:
        kept = (~ignored).to(same.dtype)
        rows = kept.sum()
        same_pairs = kept @ same @ kept
    if same.device.type == "cpu" and not is_traced():
        rows, same_pairs = float(rows), float(same_pairs)
    return per_pair(same_pairs), per_pair(rows * (rows - 1) - same_pairs)


def _inner(one: Tensor, other: Tensor) -> Tensor:
    """Return the inner product of two matrices; large ones row by row, because one long sum loses precision."""
    if one.numel() <= 1 << 20:
        return torch.dot(one.view(-1), other.view(-1))
    rows: Tensor = torch.linalg.vecdot(one, other)
    return rows.sum()


def _upstream(
    x: Tensor, weights: Weights, to_loss: Tensor | None, to_same: Tensor | None, to_other: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Return the gradients of 1 - s and of d, given those of the loss, s and d, of which some may be missing."""
    pulled = x.new_zeros(()) if to_loss is None else to_loss if weights.apart == 1 else to_loss * weights.apart
    pulled = pulled if to_same is None else pulled - to_same
    if to_loss is None or not weights.other:
        return pulled, x.new_zeros(()) if to_other is None else to_other
    return pulled, to_loss * weights.other if to_other is None else torch.add(to_other, to_loss, alpha=weights.other)


def _differentiable_backward(ctx: Any, x: Tensor, pulled: Tensor, pushed: Tensor) -> tuple[Tensor | None, ...]:
    """Return the gradient by operations that can be differentiated again, for `create_graph=True`."""
    again = pairs(x, *ctx.given)
    return (*torch.autograd.grad(again, x, (-pulled, pushed), create_graph=True), None, None, None, None)


class _Pairs(torch.autograd.Function):
    """For the CPU, where reading a number costs nothing, and for soft labels."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, labels: Tensor, ignored: Tensor | None, kind: Kind, weights: Weights
    ) -> tuple[Tensor, Tensor, Tensor]:
        inverse = inverse_norms(x, ignored)
        unit = x * inverse.unsqueeze(1)
        cosines = torch.mm(unit, unit.t())
        same = same_class(labels, labels, x.dtype)
        if labels.ndim == 2:  # of class ids, the diagonal of `same` is 1, and that of `other` becomes 0
            same.fill_diagonal_(1)
        if kind == "signed":
            other = 1 - same
        elif kind == "absolute":  # |cos| = sign * cos, and the sign is also its derivative
            other = cosines.sign()
            other.addcmul_(other, same, value=-1)
        else:  # cos^2 = cos * cos, and its derivative is twice that factor
            other = torch.addcmul(cosines, cosines, same, value=-1)
        same.fill_diagonal_(0)
        per_same, per_other = _per_pair(same, ignored)
        slope = 4 if kind == "squared" else 2  # every pair is counted in both orders
        ctx.given, ctx.weights, ctx.per = (labels, ignored, kind), weights, (2 * per_same, slope * per_other)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(x, inverse, unit, same, other)
        s, d = _inner(cosines, same).mul_(per_same), _inner(cosines, other).mul_(per_other)
        return weights.combine(torch.rsub(s, 1), d), s, d

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor | None) -> tuple[Tensor | None, ...]:
        x, inverse, unit, same, other = ctx.saved_tensors
        pulled, pushed = _upstream(x, ctx.weights, *upstream)
        if torch.is_grad_enabled():
            return _differentiable_backward(ctx, x, pulled, pushed)
        per_same, per_other = ctx.per
        if isinstance(per_same, float) and not is_traced():  # a number is faster than a tensor of one element
            coefficients = (same * (pulled.item() * -per_same)).add_(other, alpha=pushed.item() * per_other)
        else:
            coefficients = (same * (pulled * -per_same)).addcmul_(other, pushed * per_other)
        with full_precision(x):
            return unit_gradient_(torch.mm(coefficients, unit), unit, inverse), None, None, None, None


class _DevicePairs(torch.autograd.Function):
    """For class ids on an accelerator, where every operation is a launch and reading a number is a synchronization.

    `tests/kernels/test_launches.py` counts them. With A the same-class mask (0 for ignored rows), T its sum and N its
    trace, there are T - N ordered same-class pairs and N^2 - T others. Rows that are zero or ignored have length
    infinity, so that their unit vector is 0.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, labels: Tensor, ignored: Tensor | None, kind: Kind, weights: Weights
    ) -> tuple[Tensor, Tensor, Tensor]:
        alike = torch.eq(labels[:, None], labels, out=x.new_empty(len(x), len(x)))
        if ignored is not None:
            alike.masked_fill_(ignored[:, None], 0)
        inverse = inverse_norms(x, ignored)
        unit = x * inverse[:, None]
        cosines = (unit @ unit.T).fill_diagonal_(0)
        apart = torch.addcmul(cosines, cosines, alike, value=-1)  # the cosines of different classes, 0 elsewhere
        total, rows = alike.sum(), alike.diagonal().sum()
        same_pairs, other_pairs = (total - rows).clamp_(min=1), (rows * rows - total).clamp_(min=1)
        same = torch.dot(cosines.view(-1), alike.view(-1)) / same_pairs
        if kind == "signed":
            other = apart.sum()
        elif kind == "absolute":
            other = torch.linalg.vector_norm(apart.view(-1), 1)
        else:
            other = torch.dot(apart.view(-1), apart.view(-1))
        other = other / other_pairs
        ctx.given, ctx.weights = (labels, ignored, kind), weights
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(x, inverse, unit, alike, apart, same_pairs, other_pairs)
        return weights.combine(1 - same, other), same, other

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor | None) -> tuple[Tensor | None, ...]:
        x, inverse, unit, alike, apart, same_pairs, other_pairs = ctx.saved_tensors
        pulled, pushed = _upstream(x, ctx.weights, *upstream)
        if torch.is_grad_enabled():
            return _differentiable_backward(ctx, x, pulled, pushed)
        kind, by_other = ctx.given[2], pushed / other_pairs
        coefficients = alike * (pulled / same_pairs)
        if kind == "signed":
            coefficients.addcmul_(1 - alike, by_other, value=-1)
        elif kind == "absolute":
            coefficients.addcmul_(apart.sign(), by_other, value=-1)
        else:
            coefficients.addcmul_(apart, by_other, value=-2)
        with full_precision(x):
            pull = torch.addmm(unit, coefficients, unit, beta=0, alpha=-2)  # every pair is counted in both orders
            along = (pull * unit).sum(1)
            return pull.addcmul_(unit, along[:, None], value=-1).mul_(inverse[:, None]), None, None, None, None


def cross_pairs(x: Tensor, labels: Tensor, ignored: Tensor | None, split: int, kind: Kind) -> tuple[Tensor, Tensor]:
    """Return s and d over the pairs of the first `split` rows with the others, with plain operations."""
    unit = unit_rows(x, ignored)
    cosines = unit[:split] @ unit[split:].T
    same = same_class(labels[:split], labels[split:], x.dtype)
    kept = x.new_ones(len(x)) if ignored is None else (~ignored).to(x.dtype)
    same_pairs = kept[:split] @ same @ kept[split:]
    every = kept[:split].sum() * kept[split:].sum()
    other = (of_cosines(cosines, kind) * (1 - same)).sum()
    return (cosines * same).sum() * per_pair(same_pairs), other * per_pair(every - same_pairs)


def cross_sums(x: Tensor, labels: Tensor, ignored: Tensor | None, split: int) -> tuple[Tensor, Tensor]:
    """Return s and the signed d over the same pairs, from class sums: O(B*D) time and memory."""
    unit = unit_rows(x, ignored)
    kept = x.new_ones(len(x)) if ignored is None else (~ignored).to(x.dtype)
    if labels.ndim == 1:
        ids = torch.unique(labels, return_inverse=True)[1]
        classes = int(ids.max()) + 1
        sums = [unit.new_zeros(classes, x.shape[1]).index_add(0, i, u) for i, u in _halves(ids, unit, split)]
        mass = [kept.new_zeros(classes).index_add(0, i, k) for i, k in _halves(ids, kept, split)]
    else:
        sums = [weights.T @ u for weights, u in _halves(labels, unit, split)]
        mass = [weights.T @ k for weights, k in _halves(labels, kept, split)]
    (ours, theirs), wide = sums, accumulation_dtype(x)
    totals = [part.to(wide).sum(0) for part in (unit[:split], unit[split:])]
    same = (ours.to(wide) * theirs.to(wide)).sum()
    same_pairs = torch.dot(mass[0].to(wide), mass[1].to(wide))
    every = kept[:split].sum(dtype=wide) * kept[split:].sum(dtype=wide)
    by_class = (ours.to(wide) * (totals[1] - theirs.to(wide))).sum()  # so that a few pairs keep their digits
    other = by_class if labels.ndim == 1 else torch.dot(*totals) - same
    per_same, per_other = per_pair(same_pairs), per_pair(every - same_pairs)
    return (same * per_same).to(x.dtype), (other * per_other).to(x.dtype)


def _halves(labels: Tensor, values: Tensor, split: int) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    return (labels[:split], values[:split]), (labels[split:], values[split:])
