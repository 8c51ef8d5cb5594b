"""Plain cross-entropy: the baseline of every table."""

from dataclasses import dataclass

from torch import nn

from ..._ranges import FractionBelowOne
from ..types import Method, TaskShape
from .base import Objective, SupervisedObjective


@dataclass(frozen=True)
class CrossEntropy(Method):
    """Softmax cross-entropy on the logits."""

    label_smoothing: FractionBelowOne = 0.0

    def build(self, shape: TaskShape) -> Objective:
        """Build the objective, which has no parameters."""
        return SupervisedObjective(nn.CrossEntropyLoss(reduction="sum", label_smoothing=self.label_smoothing))
