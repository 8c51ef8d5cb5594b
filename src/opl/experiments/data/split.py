"""Splitting labels: hold out a validation set, or select a subset for a smaller experiment."""

from collections.abc import Sequence

import torch
from torch import Tensor

from ...errors import OptionError


def split(labels: Tensor, val: int, *, seed: int, stratified: bool = False) -> tuple[Tensor, Tensor]:
    """Hold out `val` images: return the training rows and the validation rows, both in ascending order.

    Args:
        labels: (N,), integer class ids.
        val: number of images to hold out; 0 holds out none.
        seed: the same seed and labels yield the same rows.
        stratified: hold out the exact share of each class, rounded by largest remainders (ties to the lower class).

    Example:
        >>> split(torch.tensor([0, 0, 0, 0, 1, 1]), 3, seed=0, stratified=True)[1].bincount().sum()
        tensor(3)
    """
    if not 0 <= val < max(len(labels), 1):
        raise OptionError(f"val={val} of {len(labels)} images cannot be held out: must be 0 to {len(labels) - 1}.")
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))
    if not stratified:
        return order[val:].sort().values, order[:val].sort().values
    quota = _shares(labels.bincount(), val)
    held = _rank_in_class(labels[order]) < quota[labels[order]]
    return order[~held].sort().values, order[held].sort().values


def subset(labels: Tensor, classes: int = 0, per_class: int = 0, *, seed: int = 0) -> Tensor:
    """Return the rows of the first `classes` classes, at most `per_class` per class, chosen by `seed`; 0 keeps all.

    Example:
        >>> subset(torch.tensor([0, 1, 2, 0, 1, 2]), classes=2)
        tensor([0, 1, 3, 4])
    """
    if classes < 0 or per_class < 0:
        raise OptionError(f"classes={classes}, per_class={per_class}: must not be negative (0 keeps all).")
    total = int(labels.max()) + 1 if len(labels) else 0
    most = [per_class or len(labels) if not classes or label < classes else 0 for label in range(total)]
    return keep_counts(labels, most, seed=seed)


def keep_counts(labels: Tensor, counts: Sequence[int], *, seed: int = 0) -> Tensor:
    """Return rows with at most `counts[c]` images of each class c, chosen by `seed`, in ascending order.

    Example:
        >>> labels = torch.tensor([0, 0, 0, 1, 1])
        >>> labels[keep_counts(labels, [2, 1])]
        tensor([0, 0, 1])
    """
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))
    shuffled = labels[order]
    return order[_rank_in_class(shuffled) < torch.tensor(counts)[shuffled]].sort().values


def stratified_rows(labels: Tensor, count: int) -> Tensor:
    """Return at most `count` rows in ascending order: the first rows of every class, as many per class as fit.

    All rows are returned if there are at most `count`. Classes with few images leave more rows to the others.

    Example:
        >>> stratified_rows(torch.tensor([0, 0, 0, 0, 1, 2, 2]), 5)
        tensor([0, 1, 4, 5, 6])
    """
    ranks = _rank_in_class(labels)
    per_class = int((ranks.bincount().cumsum(0) <= count).sum())  # the largest number of images per class that fits
    return (ranks < max(1, per_class)).nonzero().flatten()[:count]


def _shares(counts: Tensor, total: int) -> Tensor:
    """Return how many of `total` each class contributes; integer arithmetic rules out rounding errors."""
    share, remainder = counts * total // counts.sum(), counts * total % counts.sum()
    first = remainder.argsort(descending=True, stable=True)[: total - int(share.sum())]
    share[first] += 1
    return share


def _rank_in_class(labels: Tensor) -> Tensor:
    """Return each image's index within its class (0 for the first, 1 for the second, ...), in the given order."""
    by_class = labels.argsort(stable=True)
    starts = torch.cat([labels.new_zeros(1), labels.bincount().cumsum(0)])
    ranks = torch.empty_like(labels)
    ranks[by_class] = torch.arange(len(labels)) - starts[labels[by_class]]
    return ranks
