"""Cross-entropy plus the orthogonal projection loss: the method of the paper."""

from dataclasses import dataclass

from torch import nn

from ...functional import Form
from ..types import TaskShape
from .auxiliaries import OPL
from .base import Objective


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
        projection = OPL(self.weight, self.gamma, self.form)
        return Objective(
            nn.CrossEntropyLoss(reduction="sum"), terms={projection.name: (self.weight, projection.build(shape))}
        )
