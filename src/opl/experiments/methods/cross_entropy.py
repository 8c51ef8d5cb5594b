"""Plain cross-entropy: the baseline of every table."""

from dataclasses import dataclass

from torch import nn

from ..types import TaskShape
from .base import Objective


@dataclass(frozen=True)
class CrossEntropy:
    """Softmax cross-entropy on the logits."""

    label_smoothing: float = 0.0

    def build(self, shape: TaskShape) -> nn.Module:
        """The objective; it has no parameters."""
        return Objective(nn.CrossEntropyLoss(reduction="sum", label_smoothing=self.label_smoothing))
