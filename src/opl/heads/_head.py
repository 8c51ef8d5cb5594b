"""The base class of classifier heads, `head(features, labels=None) -> logits`, and helpers that they share."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .._kernels.normalize import full_precision, unit_rows
from .._support.arguments import as_class_ids, as_vectors, check_sizes


class Head(nn.Module):
    """The last layer of a classifier; its logits include the margin if labels are given in training mode.

    `param_options` gives the parameters that need their own optimizer options: see `opl.optim.param_groups`.
    """

    param_options: Mapping[str, Mapping[str, float]] = {}

    def __init__(self, feature_dim: int, num_classes: int) -> None:
        super().__init__()
        check_sizes(num_classes, feature_dim)
        self.feature_dim, self.num_classes = feature_dim, num_classes

    def forward(self, features: Tensor, labels: Tensor | None = None) -> Tensor:
        """Map (B, D) features to (B, C) logits; the margin needs labels, and is off after `eval()`."""
        features = as_vectors(features, self.feature_dim)
        if labels is None or not self.training:
            return self.logits(features, None)
        return self.logits(features, as_class_ids(labels, features, self.num_classes))

    def logits(self, features: Tensor, labels: Tensor | None) -> Tensor:
        """Compute the logits from features in fp32 or fp64; None for `labels` means no margin."""
        raise NotImplementedError(f"{type(self).__name__} has no formula: write its logits(features, labels).")

    def penalty(self, features: Tensor, labels: Tensor) -> Tensor:
        """Return a penalty to add to the loss with a weight; 0 for most heads."""
        return features.new_zeros(())

    def extra_repr(self) -> str:
        """Return the settings, for `print(model)`."""
        return f"feature_dim={self.feature_dim}, num_classes={self.num_classes}"


def xavier(num_classes: int, feature_dim: int) -> nn.Parameter:
    """Return (C, D) class vectors with Xavier-uniform initialization."""
    return nn.Parameter(nn.init.xavier_uniform_(torch.empty(num_classes, feature_dim)))


def cosines(features: Tensor, weight: Tensor) -> Tensor:
    """Return (B, C) cosines between features and class vectors, in fp32 or fp64; those of a zero vector are 0."""
    with full_precision(features):
        features, weight = unit_rows(features), unit_rows(weight)
        kind = torch.promote_types(features.dtype, weight.dtype)
        return F.linear(features.to(kind), weight.to(kind))
