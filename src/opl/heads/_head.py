"""The base class of classifier heads, `head(features, labels=None) -> logits`, and helpers that they share."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .._kernels.normalize import full_precision, unit_rows
from .._kernels.validate import as_integers, as_vectors, check_ignore_index, check_range, check_sizes, kept_rows
from ..functional import IGNORE_INDEX


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
        raise NotImplementedError(f"{type(self).__name__} has no formula: write its logits(features, labels).")

    def penalty(self, features: Tensor, labels: Tensor) -> Tensor:
        """Return a penalty to add to the loss with a weight; 0 for most heads."""
        return features.new_zeros(())

    def extra_repr(self) -> str:
        """Return the settings, for `print(model)`."""
        return f"feature_dim={self.feature_dim}, num_classes={self.num_classes}"


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
