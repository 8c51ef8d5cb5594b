"""Input checks of the episode classifiers, each with a one-sentence error message."""

import torch
from torch import Tensor

from ....errors import FeatureError, LabelError, OptionError


def check_support(support: Tensor, labels: Tensor, way: int) -> Tensor:
    """Check the support features and labels; return the labels as (E, n)."""
    if way < 2:
        raise OptionError(f"way is {way}: give at least 2 classes.")
    _check_features(support, "support", "(E, n, D)")
    labels = _integers(labels).to(support.device)
    count, rows, _ = support.shape
    if tuple(labels.shape) not in ((rows,), (count, rows)):
        raise LabelError(
            f"labels have shape {tuple(labels.shape)} for a support of {tuple(support.shape)}: give one for each row, "
            f"({rows},) or ({count}, {rows})."
        )
    low, high = (int(value) for value in labels.aminmax()) if labels.numel() else (0, 0)
    if low < 0 or high >= way:
        raise LabelError(
            f"label {low if low < 0 else high} does not exist: there are {way} classes (0 to {way - 1}); number the "
            "classes within each episode."
        )
    labels = labels.long()
    _check_all_there(labels if labels.ndim == 2 else labels[None], way)
    return labels.expand(count, rows)


def check_finite(sums: Tensor, support: Tensor) -> None:
    """Raise an error if a sum over the support is not finite: cheaper than checking every feature."""
    if not sums.isfinite().all():
        raise not_finite_error(support)


def not_finite_error(support: Tensor, queries: Tensor | None = None) -> FeatureError:
    """Return the error for features with a sum that is not finite."""
    for name, features in (("the support", support), ("the queries", queries)):
        if features is not None and not features.isfinite().all():
            return FeatureError(f"{name} holds a value that is not finite: look at the model that made the features.")
    return FeatureError("the features are too large to be multiplied: divide them by their norm, or give float64.")


def _check_features(x: Tensor, name: str, shape: str) -> None:
    if not isinstance(x, Tensor):
        raise FeatureError(f"{name} is a {type(x).__name__}: give a torch.Tensor {shape}.")
    if x.ndim != 3 or not x.shape[2]:
        raise FeatureError(f"{name} has shape {tuple(x.shape)}: give {shape}; a single episode is {name}[None].")
    if not x.is_floating_point():
        raise FeatureError(f"{name} is {x.dtype}: give floating-point features, for instance {name}.float().")


def check_queries(support: Tensor, queries: Tensor) -> None:
    """Raise an error if the queries do not match the episodes."""
    _check_features(queries, "queries", "(E, q, D)")
    if (len(queries), queries.shape[2]) != (len(support), support.shape[2]):
        raise FeatureError(
            f"queries have shape {tuple(queries.shape)} and the support {tuple(support.shape)}: give both for the "
            "same episodes, with as many numbers a feature."
        )


def _integers(labels: Tensor) -> Tensor:
    if not isinstance(labels, Tensor):
        raise LabelError(f"labels are a {type(labels).__name__}: give a torch.Tensor of class ids.")
    if labels.is_floating_point() or labels.is_complex() or labels.dtype == torch.bool:
        raise LabelError(f"labels are {labels.dtype}: give integer class ids, for instance labels.long().")
    return labels


def _check_all_there(labels: Tensor, way: int) -> None:
    counts = torch.zeros(len(labels), way, dtype=torch.long, device=labels.device)
    missing = counts.scatter_add_(1, labels, torch.ones_like(labels)) == 0
    if missing.any():
        episode, label = missing.nonzero()[0].tolist()
        raise LabelError(
            f"class {label} has no row in the support of episode {episode}: give each of the {way} classes at least "
            "one, or a smaller way."
        )
