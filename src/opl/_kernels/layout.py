"""How the classes of a batch lie: the share of samples without a positive, and the two closest class means."""

from typing import NamedTuple

import torch
from torch import Tensor

from .classes import Hard, Soft
from .normalize import inverse_norms
from .validate import READ_FROM, may_read_values

MOST_CLASSES = 2048  # of these, all pairs are compared


class Layout(NamedTuple):
    """`without_positive` is a share of the samples; `class_cosine` is the largest between the means of two classes."""

    without_positive: Tensor
    class_cosine: Tensor


@torch.no_grad()
def layout(x: Tensor, labels: Tensor, ignored: Tensor | None) -> Layout:
    """Return the layout of a validated batch; without a synchronization wherever the loss has none either."""
    x = x.detach()
    inverse = inverse_norms(x, ignored)
    if labels.ndim == 2:
        weights = Soft.of(labels, ignored).weights
        alone, rows = soft_alone(weights, weights.sum(0), ignored)
        return Layout(alone / rows.clamp(min=1), closest((weights * inverse[:, None]).T @ x, weights.sum(0) > 0))
    if may_read_values(x):
        classes = Hard.of(labels, ignored)
        return layout_of_sums(classes.moments(x, inverse)[0], classes.counts)
    x, labels, inverse = x[:READ_FROM], labels[:READ_FROM], inverse[:READ_FROM]
    kept = torch.ones_like(inverse) if ignored is None else (~ignored[:READ_FROM]).to(x.dtype)
    order = labels.argsort()
    ordered = labels[order]
    places = torch.cat([ordered.new_zeros(1), (ordered[1:] != ordered[:-1]).to(ordered.dtype)]).long()[: len(x)]
    ids = places.cumsum(0)  # a place for each class, of as many as there are rows
    sums = torch.zeros_like(x).index_add(0, ids, (x * inverse[:, None])[order])
    return layout_of_sums(sums, torch.zeros_like(inverse).index_add(0, ids, kept[order]))


def layout_of_sums(sums: Tensor, counts: Tensor) -> Layout:
    """Return the layout of a batch with these (K, D) sums of unit features and (K,) numbers of samples."""
    alone = (counts == 1).sum().to(sums.dtype)
    return Layout(alone / counts.sum().clamp(min=1), closest(sums, counts > 0))


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
