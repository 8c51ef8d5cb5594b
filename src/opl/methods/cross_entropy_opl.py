"""Cross-entropy plus the orthogonal projection loss: the method of the paper."""

from dataclasses import dataclass

import torch.distributed as dist
from torch import nn
from torch.nn import functional as F

from ..functional import Form
from ..losses.projection import OrthogonalProjectionLoss
from ..types import Batch, TaskShape, Terms


@dataclass(frozen=True)
class CrossEntropyOPL:
    """Cross-entropy and OPL on the same features; over several processes OPL is that of the global batch."""

    weight: float = 1.0
    """The paper's lambda."""
    gamma: float = 0.5
    """Weight of d against s."""
    form: Form = "mean_abs"
    """How d is made; on pooled ReLU features all three are one number."""

    def build(self, shape: TaskShape) -> nn.Module:
        """The objective; it has no parameters."""
        return Objective(self)


class Objective(nn.Module):
    """Cross-entropy of the logits plus `weight` times OPL of the features."""

    def __init__(self, method: CrossEntropyOPL) -> None:
        super().__init__()
        together = dist.is_available() and dist.is_initialized()
        self.weight = method.weight
        self.projection = OrthogonalProjectionLoss(method.gamma, method.form, global_batch=together)

    def forward(self, model: nn.Module, batch: Batch) -> Terms:
        """The loss of one batch."""
        features, logits = model(batch.images)
        entropy = F.cross_entropy(logits, batch.labels, reduction="sum") * batch.each
        projection = self.projection(features, batch.labels)
        return Terms(entropy + self.weight * projection, {"entropy": entropy, "projection": projection})
