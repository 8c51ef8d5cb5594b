"""Plain cross-entropy: the baseline of every table."""

from dataclasses import dataclass

from torch import nn
from torch.nn import functional as F

from ..types import Batch, TaskShape, Terms


@dataclass(frozen=True)
class CrossEntropy:
    """Softmax cross-entropy on the logits."""

    label_smoothing: float = 0.0

    def build(self, shape: TaskShape) -> nn.Module:
        """The objective; it has no parameters."""
        return Objective(self.label_smoothing)


class Objective(nn.Module):
    """Cross-entropy of the model's logits."""

    def __init__(self, label_smoothing: float) -> None:
        super().__init__()
        self.label_smoothing = label_smoothing

    def forward(self, model: nn.Module, batch: Batch) -> Terms:
        """The loss of one batch."""
        _, logits = model(batch.images)
        smoothing = self.label_smoothing
        entropy = F.cross_entropy(logits, batch.labels, reduction="sum", label_smoothing=smoothing) * batch.each
        return Terms(entropy, {"entropy": entropy})
