"""Labels as class weights: what each class sums to, how many pairs there are, and what pulls on each sample.

With `u_i` the unit features and `S_c` the sum of class c, the cosines of all same-class pairs add up to
`sum_c (|S_c|^2 - n_c)` and those of all other pairs to `|sum_c S_c|^2 - sum_c |S_c|^2`: no pair is ever visited.
`Hard` holds class ids and `Soft` rows of class weights, with the same three questions to both: `moments`, sums over the
batch that add up over processes; `stats`, s and d from those; `pull`, the gradient of the unit features from those.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from .normalize import accumulation_dtype, is_traced

Number = Tensor | float

RUN = 1024  # rows added up in one run: longer classes are summed in two levels, which keeps fp32 sums exact to 1e-6


class Stats(NamedTuple):
    """What follows from the moments: s, the signed d, one over the number of pairs in each, and the sum of all rows."""

    same: Tensor
    other: Tensor
    per_same: Number
    per_other: Number
    total: Tensor


def per_pair(pairs: Number) -> Number:
    """One over a number of pairs; 0 where there are none, so that a mean over no pairs is 0.

    A plain number on the CPU, where reading it is free and saves a chain of tiny operations.
    """
    if isinstance(pairs, Tensor):
        if pairs.device.type != "cpu" or is_traced():
            return torch.where(pairs > 0, 1 / torch.where(pairs > 0, pairs, 1), 0)
        pairs = pairs.item()
    return 1 / pairs if pairs > 0 else 0.0


@dataclass(frozen=True)
class Hard:
    """Integer labels, the classes that are present numbered from 0.

    `ids` (B,) is the class of each row here and `sizes` (K,) how many rows each class has here; `counts` (K,) is how
    many take part in the whole batch, which is larger than these rows when it is spread over processes.
    """

    ids: Tensor
    sizes: Tensor
    counts: Tensor
    ignored: Tensor | None = None

    @classmethod
    def of(cls, labels: Tensor, ignored: Tensor | None) -> "Hard":
        """Number the classes of `labels` and count them."""
        _, ids, sizes = torch.unique(labels, return_inverse=True, return_counts=True)
        if ignored is None:
            return cls(ids, sizes, sizes)
        counts = torch.zeros_like(sizes).index_add_(0, ids, (~ignored).to(sizes.dtype))
        return cls(ids, sizes, counts, ignored)

    def part(self, rows: slice) -> "Hard":
        """The same classes, some of the rows."""
        ids = self.ids[rows]
        sizes = torch.zeros_like(self.sizes).index_add_(0, ids, torch.ones_like(ids))
        return Hard(ids, sizes, self.counts, None if self.ignored is None else self.ignored[rows])

    def moments(self, x: Tensor, inverse: Tensor) -> tuple[Tensor, ...]:
        """(K, D) class sums of the unit features; (K,) how many rows of each class have a direction."""
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
        # A bag is a run of rows of one class; its weights are the inverse norms: unit features are never stored.
        bags = F.embedding_bag(order, x, starts, mode="sum", per_sample_weights=inverse[order])
        if not long:
            return bags
        return x.new_zeros(len(self.sizes), x.shape[1]).index_add_(0, self.ids[order[starts]], bags)

    def stats(self, moments: tuple[Tensor, ...]) -> Stats:
        """Subtracted class by class, singletons left out: a few pairs in a large batch keep all their digits."""
        sums, directed = moments
        if sums.requires_grad:  # a class that sums to zero has a second derivative, its norm has none
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
        """A (K, D) table, then one row of it for each sample."""
        high = total.to(sums.dtype)
        low = (total - high).to(sums.dtype)
        # total - sums in two parts: where one class is nearly the whole batch, the small rest is exact.
        rest = (high - sums).add_(low)
        pulling = (self.counts > 1).to(sums.dtype)[:, None]  # a class of one does not pull on its only member
        return (sums * (pulling * same)).add_(rest.mul_(other)).index_select(0, self.ids)


@dataclass(frozen=True)
class Soft:
    """Rows of class weights (mixup, cutmix): a pair is same-class to the inner product of its two rows."""

    weights: Tensor
    ignored: Tensor | None = None

    @classmethod
    def of(cls, labels: Tensor, ignored: Tensor | None) -> "Soft":
        """Ignored rows weigh nothing."""
        return cls(labels if ignored is None else labels.masked_fill(ignored[:, None], 0), ignored)

    @property
    def rows(self) -> int:
        """How many rows take part."""
        return len(self.weights) - (0 if self.ignored is None else int(self.ignored.sum()))

    def part(self, rows: slice) -> "Soft":
        """The same classes, some of the rows."""
        return Soft(self.weights[rows], None if self.ignored is None else self.ignored[rows])

    def moments(self, x: Tensor, inverse: Tensor) -> tuple[Tensor, ...]:
        """(C, D) class sums, (D,) sum of all, (C,) mass of the classes, and four numbers on the rows themselves."""
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
        """The same identities with weights in place of counts."""
        sums, total, mass, numbers = (m.to(accumulation_dtype(m)) for m in moments)
        rows, directed, selves, directed_selves = numbers
        same = sums.square().sum() - directed_selves
        same_pairs = torch.dot(mass, mass) - selves
        per_same, per_other = per_pair(same_pairs), per_pair(rows * (rows - 1) - same_pairs)
        other = torch.dot(total, total) - directed - same
        dtype = moments[0].dtype
        return Stats((same * per_same).to(dtype), (other * per_other).to(dtype), per_same, per_other, total)

    def pull(self, sums: Tensor, total: Tensor, same: Number, other: Number) -> Tensor:
        """Every row's mixture of the class sums, and the sum of all."""
        return torch.addmm((total * other).to(sums.dtype), self.weights, sums * (same - other))


Classes = Hard | Soft


def classes_of(labels: Tensor, ignored: Tensor | None) -> Classes:
    """Class ids or class weights, by the labels' shape."""
    return Hard.of(labels, ignored) if labels.ndim == 1 else Soft.of(labels, ignored)


def same_class(rows: Tensor, columns: Tensor, dtype: torch.dtype) -> Tensor:
    """(R, C) same-class weight of every pair, straight from the labels: 1 or 0, or the inner product of soft rows."""
    if rows.ndim == 2:
        return rows @ columns.T
    if rows.dtype == dtype:  # ids in the features' own type: comparing those is five times faster
        return torch.eq(rows[:, None], columns, out=rows.new_empty(len(rows), len(columns)))
    return (rows[:, None] == columns).to(dtype)


def sums_are_exact(rows: float, mass: Tensor) -> bool:
    """Whether soft labels have rows enough for each class, and pairs of both kinds, so that sums keep their digits.

    From twice as many rows as classes there are at least as many same-class pairs as rows; and other-class pairs must
    be one in a hundred, or their sum is a small difference of large ones.
    """
    return rows >= 2 * len(mass) and bool(mass.square().sum() < 0.99 * rows * rows)
