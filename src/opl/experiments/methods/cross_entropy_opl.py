"""Cross-entropy plus the orthogonal projection loss: the method of the paper."""

from dataclasses import dataclass

from torch import nn

from ...functional import FORM, GAMMA, WEIGHT, Form
from ..types import Method, TaskShape
from .auxiliaries import OPL, build_terms
from .base import Objective, SupervisedObjective
from .cross_entropy import CrossEntropy


@dataclass(frozen=True)
class CrossEntropyOPL(Method):
    """Cross-entropy and OPL on the same features; over several processes OPL is that of the global batch."""

    weight: float = WEIGHT
    """The paper's lambda."""
    gamma: float = GAMMA
    """Weight of d against s."""
    form: Form = FORM
    """How d is made; on pooled ReLU features all three are one number."""

    @property
    def opl(self) -> OPL:
        """The settings of OPL."""
        return OPL(self.weight, self.gamma, self.form)

    def baseline(self) -> CrossEntropy:
        """Cross-entropy alone."""
        return CrossEntropy()

    def build(self, shape: TaskShape) -> Objective:
        """The objective; it has no parameters."""
        return SupervisedObjective(nn.CrossEntropyLoss(reduction="sum"), terms=build_terms((self.opl,), shape))
