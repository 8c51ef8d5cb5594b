"""The base classes of classifier heads, `head(features, labels=None) -> logits`, and helpers that they share."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .._kernels.normalize import accumulation_dtype, full_precision, unit_rows
from .._kernels.validate import (
    as_integers,
    as_vectors,
    check_ignore_index,
    check_positive,
    check_range,
    check_sizes,
    check_steps,
    kept_rows,
)
from ..functional import IGNORE_INDEX
from ..schedules import StepCounter, ramp


class Head(nn.Module):
    """The last layer of a classifier; its logits include the margin if labels are given in training mode.

    `param_options` gives the parameters that need their own optimizer options: see `opl.optim.param_groups`.

    Args:
        feature_dim: D, the width of the features.
        num_classes: C, the number of logits.
        ignore_index: rows with this label get no margin, and no penalty; a criterion with the same `ignore_index`
            excludes them from the loss.
    """

    param_options: Mapping[str, Mapping[str, float]] = {}

    def __init__(self, feature_dim: int, *, num_classes: int, ignore_index: int = IGNORE_INDEX) -> None:
        super().__init__()
        check_sizes(feature_dim, num_classes)
        check_ignore_index(ignore_index)
        self.feature_dim, self.num_classes, self.ignore_index = feature_dim, num_classes, ignore_index

    def forward(self, features: Tensor, labels: Tensor | None = None) -> Tensor:
        """Map (B, D) features to (B, C) logits; the margin needs labels, and is off after `eval()`."""
        features = as_vectors(features, self.feature_dim)
        if labels is None or not self.training:
            return self.logits(features, None)
        return self.logits(features, self.class_ids(labels, features))

    def class_ids(self, labels: Tensor, features: Tensor) -> Tensor:
        """Return labels as (B,) class ids, with -1 for ignored rows."""
        labels = as_integers(labels, features)
        kept = kept_rows(labels, features, self.ignore_index)
        if kept is None:
            return check_range(labels, features, self.num_classes)
        return check_range(labels.where(kept, 0), features, self.num_classes).where(kept, -1)

    def logits(self, features: Tensor, labels: Tensor | None) -> Tensor:
        """Compute the logits from features in fp32 or fp64; None for `labels`, or an id of -1, means no margin."""
        raise NotImplementedError(f"{type(self).__name__} has no formula: implement logits(features, labels).")

    def penalty(self, features: Tensor, labels: Tensor) -> Tensor:
        """Return a penalty to add to the loss with a weight; 0 for most heads."""
        return features.new_zeros(())

    def extra_repr(self) -> str:
        """Return the settings, for `print(model)`."""
        return f"feature_dim={self.feature_dim}, num_classes={self.num_classes}"


class CosineHead(Head, StepCounter):
    """A head with a scaled cosine per class and a margin for the label, which grows from 0 over `warmup` steps.

    It counts its calls in training mode, as part of its state; `head.set_step(n)` sets the count. At test time the
    class with the largest cosine is predicted.
    """

    def __init__(
        self, feature_dim: int, *, num_classes: int, scale: float, margin: float, warmup: int, ignore_index: int
    ) -> None:
        super().__init__(feature_dim, num_classes=num_classes, ignore_index=ignore_index)
        self.scale, self.margin, self.warmup = check_positive("scale", scale), margin, check_steps("warmup", warmup)
        self.weight = xavier(feature_dim, num_classes)

    def next_margin(self, labels: Tensor | None) -> Tensor | float:
        """Return the margin at this step, and count the step in training mode; without labels, only the setting."""
        return self.margin if labels is None else self.margin * ramp(self.tick(), self.warmup)


def is_target(labels: Tensor, num_classes: int) -> Tensor:
    """Return a (B, C) mask of the label of each row; a negative label selects none."""
    return labels[:, None] == torch.arange(num_classes, device=labels.device)


def target_column(values: Tensor, labels: Tensor) -> Tensor:
    """Return (B, 1), the value of the label of each row; a negative label gives some value, which is not used."""
    return values.gather(1, labels.clamp(min=0)[:, None])


def xavier(feature_dim: int, num_classes: int) -> nn.Parameter:
    """Return (C, D) class vectors with Xavier-uniform initialization."""
    return nn.Parameter(nn.init.xavier_uniform_(torch.empty(num_classes, feature_dim)))


def cosines(features: Tensor, weight: Tensor) -> Tensor:
    """Return (B, C) cosines between features and class vectors, in fp32 or fp64; those of a zero vector are 0."""
    with full_precision(features):
        features, weight = unit_rows(features), unit_rows(weight)
        kind = torch.promote_types(features.dtype, weight.dtype)
        return F.linear(features.to(kind), weight.to(kind))


def squared_distances(features: Tensor, centers: Tensor, log_variances: Tensor | None = None) -> Tensor:
    """Return (B, C) squared distances, each squared coordinate divided by its variance, in fp32 or fp64.

    Computed as `|f|^2 - 2 f.c + |c|^2` in float64: two products and no (B, C, D) difference, without the precision that
    this form loses in fp32.
    """
    kind = accumulation_dtype(features)
    with full_precision(features):
        f, c = features.to(kind), centers.to(kind)
        if log_variances is None:
            squares = f.square().sum(1, keepdim=True) + c.square().sum(1) - 2 * F.linear(f, c)
        else:
            precision = (-log_variances.to(kind)).exp()
            squares = F.linear(f.square(), precision) - 2 * F.linear(f, c * precision)
            squares = squares + (c.square() * precision).sum(1)
        return squares.clamp(min=0).to(torch.promote_types(features.dtype, torch.float32))
