"""The ordinary linear classifier as a head, with an optional bias that starts sigmoids at a small probability."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..functional import IGNORE_INDEX
from ._head import Head


class LinearHead(Head):
    """A linear classifier, `W f + b`; with `prior`, b starts at `-log(C - 1)` and has no weight decay.

    With this initial bias a sigmoid gives every class a probability of 1/C, so that a sum of C sigmoid terms does not
    start with a very large loss. The class-balanced focal loss was trained this way.

    Example:
        >>> LinearHead(64, num_classes=100, prior=True).bias[0]
        tensor(-4.5951, grad_fn=<SelectBackward0>)
    """

    def __init__(
        self, feature_dim: int, *, num_classes: int, prior: bool = False, ignore_index: int = IGNORE_INDEX
    ) -> None:
        super().__init__(feature_dim, num_classes=num_classes, ignore_index=ignore_index)
        first = nn.Linear(feature_dim, num_classes)
        self.weight, self.bias = first.weight, first.bias
        if prior:
            self.param_options = {"bias": {"weight_decay": 0.0}}
            with torch.no_grad():
                self.bias.fill_(-math.log(max(1, num_classes - 1)))

    def logits(self, features: Tensor, labels: Tensor | None) -> Tensor:
        """Compute `W f + b`; there is no margin."""
        return F.linear(features, self.weight.to(features.dtype), self.bias.to(features.dtype))
