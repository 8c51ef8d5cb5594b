"""Class sums instead of pairs: O(B*D) time and memory, for signed means and for non-negative features.

With `u_i` the unit features, `S_c` their sum over class c and `n_c` its size, the cosines of all same-class pairs sum
to `sum_c (|S_c|^2 - n_c)` and those of all other pairs to `|sum_c S_c|^2 - sum_c |S_c|^2`: no pair is ever visited.
`Hard` holds class ids and `Soft` holds rows of class weights. Both have the same three methods: `moments`, sums over
the batch that can be added over processes; `stats`, s and d from the moments; `pull`, the gradient of the unit features
from the moments.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from .normalize import (
    accumulation_dtype,
    feature_gradient_,
    full_precision,
    inverse_norms,
    is_traced,
    unit_rows,
)
from .validate import READ_FROM, may_read_values

Number = Tensor | float

RUN = 1024  # rows summed in one run: larger classes are summed in two levels, which keeps fp32 sums exact to 1e-6
FEWEST_PAIRS = 1e-6  # a smaller weight of all pairs is rounding error
MOST_CLASSES = 2048  # of these, all pairs are compared


class Stats(NamedTuple):
    """Results from the moments: s, the signed d, one over the number of pairs of each, and the sum of all rows."""

    same: Tensor
    other: Tensor
    per_same: Number
    per_other: Number
    total: Tensor


def per_pair(pairs: Number) -> Number:
    """Return one over a number of pairs, or 0 if there are none, so that a mean over no pairs is 0.

    The weights of label rows may add up to a little more than nothing, by rounding.

    On the CPU the result is a Python number: reading it costs nothing and saves a chain of tiny operations.
    """
    if isinstance(pairs, Tensor):
        if pairs.device.type != "cpu" or is_traced():
            some = pairs > FEWEST_PAIRS
            return torch.where(some, 1 / torch.where(some, pairs, 1), 0)
        pairs = pairs.item()
    return 1 / pairs if pairs > FEWEST_PAIRS else 0.0


@dataclass(frozen=True)
class Hard:
    """Integer labels, with the K classes present renumbered from 0.

    `ids` (B,) is the class of each local row and `sizes` (K,) the number of local rows of each class. `counts` (K,) is
    the number of rows of each class in the whole batch without ignored rows; the whole batch is larger than the local
    rows if it is spread over processes.
    """

    ids: Tensor
    sizes: Tensor
    counts: Tensor
    ignored: Tensor | None = None

    @classmethod
    def of(cls, labels: Tensor, ignored: Tensor | None) -> "Hard":
        """Renumber the classes of `labels` from 0 and count their rows."""
        _, ids, sizes = torch.unique(labels, return_inverse=True, return_counts=True)
        if ignored is None:
            return cls(ids, sizes, sizes)
        counts = torch.zeros_like(sizes).index_add_(0, ids, (~ignored).to(sizes.dtype))
        return cls(ids, sizes, counts, ignored)

    def part(self, rows: slice) -> "Hard":
        """Return the same classes for a subset of the rows."""
        ids = self.ids[rows]
        sizes = torch.zeros_like(self.sizes).index_add_(0, ids, torch.ones_like(ids))
        return Hard(ids, sizes, self.counts, None if self.ignored is None else self.ignored[rows])

    def moments(self, x: Tensor, inverse: Tensor) -> tuple[Tensor, ...]:
        """Return the (K, D) class sums of the unit features, and (K,) the number of nonzero rows of each class."""
        directed = x.new_zeros(len(self.counts)).index_add_(0, self.ids, (inverse > 0).to(x.dtype))
        return self._sums(x, inverse), directed

    def _sums(self, x: Tensor, inverse: Tensor) -> Tensor:
        if len(x) == 0:
            return x.new_zeros(len(self.sizes), x.shape[1])
        order = self.ids.argsort()
        starts = self.sizes.cumsum(0) - self.sizes
        long = len(x) > RUN and int(self.sizes.max()) > RUN
        if long:
            starts = torch.unique(torch.cat([starts, torch.arange(0, len(x), RUN, device=x.device)]))
            starts = starts[starts < len(x)]
        # A bag is a run of rows of one class, weighted by their inverse norms, so unit features are never stored.
        bags = F.embedding_bag(order, x, starts, mode="sum", per_sample_weights=inverse[order])
        if not long:
            return bags
        return x.new_zeros(len(self.sizes), x.shape[1]).index_add_(0, self.ids[order[starts]], bags)

    def stats(self, moments: tuple[Tensor, ...]) -> Stats:
        """Return s and d; subtracting per class, without singletons, keeps a few pairs in a large batch accurate."""
        sums, directed = moments
        if sums.requires_grad:  # a class sum of zero: its square has a second derivative, its norm has none
            squares = sums.to(accumulation_dtype(sums)).square().sum(1)
        else:
            squares = torch.linalg.vector_norm(sums, dim=1, dtype=accumulation_dtype(sums)).square()
        total = sums.sum(0, dtype=accumulation_dtype(sums))
        same = torch.where(self.counts > 1, squares - directed, 0).sum()
        rows, alike = self.counts.sum(), torch.dot(self.counts, self.counts)
        per_same, per_other = per_pair(alike - rows), per_pair(rows * rows - alike)
        other = torch.dot(total, total) - squares.sum()
        return Stats((same * per_same).to(sums.dtype), (other * per_other).to(sums.dtype), per_same, per_other, total)

    def pull(self, sums: Tensor, total: Tensor, same: Number, other: Number) -> Tensor:
        """Return the (B, D) gradient of the unit features: a (K, D) table, indexed by the class of each row."""
        high = total.to(sums.dtype)
        low = (total - high).to(sums.dtype)
        # total - sums in two parts, so that the small rest is exact if one class is nearly the whole batch.
        rest = (high - sums).add_(low)
        pulling = (self.counts > 1).to(sums.dtype)[:, None]  # a class with one sample exerts no pull on it
        return (sums * (pulling * same)).add_(rest.mul_(other)).index_select(0, self.ids)


@dataclass(frozen=True)
class Soft:
    """Rows of class weights (mixup, cutmix); the same-class weight of a pair is the inner product of its two rows."""

    weights: Tensor
    ignored: Tensor | None = None

    @classmethod
    def of(cls, labels: Tensor, ignored: Tensor | None) -> "Soft":
        """Set the weights of ignored rows to 0."""
        return cls(labels if ignored is None else labels.masked_fill(ignored[:, None], 0), ignored)

    @property
    def rows(self) -> int:
        """The number of rows that are not ignored."""
        return len(self.weights) - (0 if self.ignored is None else int(self.ignored.sum()))

    def part(self, rows: slice) -> "Soft":
        """Return the same classes for a subset of the rows."""
        return Soft(self.weights[rows], None if self.ignored is None else self.ignored[rows])

    def moments(self, x: Tensor, inverse: Tensor) -> tuple[Tensor, ...]:
        """Return the (C, D) class sums, the (D,) total sum, the (C,) class masses, and four scalars about the rows.

        The scalars are the number of rows, the number of nonzero rows, and the sum of squared weights over each of
        these two sets.
        """
        directed = inverse > 0
        selves = self.weights.square().sum(1, dtype=accumulation_dtype(x))
        numbers = torch.stack(
            [
                torch.tensor(self.rows, dtype=accumulation_dtype(x), device=x.device),
                directed.sum().to(accumulation_dtype(x)),
                selves.sum(),
                selves[directed].sum(),
            ]
        )
        mass = self.weights.sum(0, dtype=accumulation_dtype(x))
        return (self.weights * inverse[:, None]).T @ x, inverse @ x, mass.to(x.dtype), numbers.to(x.dtype)

    def stats(self, moments: tuple[Tensor, ...]) -> Stats:
        """Return s and d by the same identities, with weights in place of counts."""
        return soft_stats(moments)

    def pull(self, sums: Tensor, total: Tensor, same: Number, other: Number) -> Tensor:
        """Return the (B, D) gradient of the unit features: each row's mixture of class sums, plus the total sum."""
        return torch.addmm((total * other).to(sums.dtype), self.weights, sums * (same - other))


def soft_stats(moments: tuple[Tensor, ...]) -> Stats:
    """Return s and d from the moments of `Soft`."""
    sums, total, mass, numbers = (m.to(accumulation_dtype(m)) for m in moments)
    rows, directed, selves, directed_selves = numbers
    same = sums.square().sum() - directed_selves
    same_pairs = torch.dot(mass, mass) - selves
    per_same, per_other = per_pair(same_pairs), per_pair(rows * (rows - 1) - same_pairs)
    other = torch.dot(total, total) - directed - same
    dtype = moments[0].dtype
    return Stats((same * per_same).to(dtype), (other * per_other).to(dtype), per_same, per_other, total)


Classes = Hard | Soft


def classes_of(labels: Tensor, ignored: Tensor | None) -> Classes:
    """Return `Hard` for (B,) class ids and `Soft` for (B, C) class weights."""
    return Hard.of(labels, ignored) if labels.ndim == 1 else Soft.of(labels, ignored)


def same_class(rows: Tensor, columns: Tensor, dtype: torch.dtype) -> Tensor:
    """Return the (R, C) same-class weights of all pairs: 1 or 0, or the inner product of soft labels."""
    if rows.ndim == 2:
        return rows @ columns.T
    if rows.dtype == dtype:  # ids in the dtype of the features: this comparison is five times faster
        return torch.eq(rows.unsqueeze(1), columns, out=rows.new_empty(rows.shape[0], columns.shape[0]))
    return (rows[:, None] == columns).to(dtype)


def sums_are_exact(rows: float, mass: Tensor) -> bool:
    """Return whether class sums of soft labels are accurate: enough rows per class, and pairs of both kinds.

    With at least twice as many rows as classes, there are at least as many same-class pairs as rows. Different-class
    pairs must be at least one in a hundred; otherwise their sum is a small difference of large numbers.
    """
    return rows >= 2 * len(mass) and bool(mass.square().sum() < 0.99 * rows * rows)


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
    unit, directed = unit_rows(x, classes.ignored), (inverse_norms(x, classes.ignored) > 0).to(x.dtype)
    if isinstance(classes, Hard):
        sums = x.new_zeros(len(classes.counts), x.shape[1]).index_add(0, classes.ids, unit)
        stats = classes.stats((sums, x.new_zeros(len(classes.counts)).index_add(0, classes.ids, directed)))
    else:
        stats = classes.stats(classes.moments(unit, directed))
    return stats.same, stats.other


class Layout(NamedTuple):
    """How the classes of a batch lie: numbers that explain its s and d, as tensors of one element."""

    without_positive: Tensor
    """The share of samples that are alone in their class."""
    class_cosine: Tensor
    """The largest cosine between the means of two classes."""
    same_pairs: Tensor
    other_pairs: Tensor
    num_classes: Tensor
    per_class: Tensor
    """The mean number of samples per class."""
    signed: Tensor
    """The mean cosine over different-class pairs."""


@torch.no_grad()
def layout(x: Tensor, labels: Tensor, ignored: Tensor | None) -> Layout:
    """Return the layout of a validated batch; without a synchronization wherever the loss has none either."""
    x = x.detach()
    inverse = inverse_norms(x, ignored)
    if labels.ndim == 2:
        weights, directed = Soft.of(labels, ignored).weights, (inverse > 0).to(x.dtype)
        selves, mass = weights.square().sum(1), weights.sum(0)
        alone, rows = soft_alone(weights, mass, ignored)
        numbers = torch.stack([rows, directed.sum(), selves.sum(), selves @ directed])
        return soft_layout(((weights * inverse[:, None]).T @ x, inverse @ x, mass, numbers), alone)
    if may_read_values(x):
        classes = Hard.of(labels, ignored)
        return layout_of_sums(classes.moments(x, inverse)[0], classes.counts)
    x, labels, inverse = x[:READ_FROM], labels[:READ_FROM], inverse[:READ_FROM]
    kept = torch.ones_like(inverse) if ignored is None else (~ignored[:READ_FROM]).to(x.dtype)
    order = labels.argsort()
    ordered = labels[order]
    starts = torch.cat([ordered.new_zeros(1), (ordered[1:] != ordered[:-1]).to(ordered.dtype)]).long()[: len(x)]
    ids = starts.cumsum(0)  # an id per class, of as many as there are rows
    sums = torch.zeros_like(x).index_add(0, ids, (x * inverse[:, None])[order])
    return layout_of_sums(sums, torch.zeros_like(inverse).index_add(0, ids, kept[order]))


def layout_of_sums(sums: Tensor, counts: Tensor) -> Layout:
    """Return the layout of a batch with these (K, D) sums of unit features and (K,) numbers of samples."""
    wide, counts = sums.to(accumulation_dtype(sums)), counts.to(accumulation_dtype(sums))
    rows, alike, present = counts.sum(), counts.square().sum(), counts > 0
    num_classes, other_pairs = present.sum().to(rows.dtype), rows * rows - alike
    signed = wide.sum(0).square().sum() - wide.square().sum()
    numbers = (
        (counts == 1).sum() / rows.clamp(min=1),
        closest(sums, present),
        alike - rows,
        other_pairs,
        num_classes,
        rows / num_classes.clamp(min=1),
        signed / other_pairs.clamp(min=1),
    )
    return Layout(*(number.to(sums.dtype) for number in numbers))


def soft_layout(moments: tuple[Tensor, ...], alone: Tensor) -> Layout:
    """Return the layout of a batch with these moments of `Soft`, and the number of rows that are alone."""
    sums, _, mass, (rows, _, selves, _) = moments
    same_pairs = mass.square().sum() - selves
    num_classes = (mass > 0).sum().to(sums.dtype)
    return Layout(
        alone / rows.clamp(min=1),
        closest(sums, mass > 0),
        same_pairs,
        rows * (rows - 1) - same_pairs,
        num_classes,
        rows / num_classes.clamp(min=1),
        soft_stats(moments).other,
    )


def soft_alone(weights: Tensor, mass: Tensor, ignored: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return the number of soft-labeled rows that share no class with another row, and the number of rows."""
    shared = weights @ mass - weights.square().sum(1)
    alone = shared <= 1e-6
    kept = torch.ones_like(alone) if ignored is None else ~ignored
    return (alone & kept).sum().to(weights.dtype), kept.sum().to(weights.dtype)


def closest(sums: Tensor, present: Tensor) -> Tensor:
    """Return the largest cosine between two of the (K, D) class sums that are present; 0 if there are not two."""
    sums, present = sums[:MOST_CLASSES], present[:MOST_CLASSES]
    if not len(sums):
        return sums.new_zeros(())
    means = sums * inverse_norms(sums, ~present)[:, None]
    pairs = (present[:, None] & present).fill_diagonal_(False)
    return torch.where(pairs.any(), (means @ means.T).masked_fill(~pairs, -1).max(), 0)
