"""Cross-entropy, the baseline of every table, and cross-entropy plus OPL, the method of the paper."""

from dataclasses import dataclass

from torch import nn

from ..._ranges import FractionBelowOne, NotNegative
from ...functional import FORM, GAMMA, WEIGHT, Form
from ..types import Method, TaskShape
from .auxiliaries import OPL, build_terms
from .base import Objective, SupervisedObjective


@dataclass(frozen=True)
class CrossEntropy(Method):
    """Softmax cross-entropy on the logits."""

    label_smoothing: FractionBelowOne = 0.0

    def build(self, shape: TaskShape) -> Objective:
        """Build the objective, which has no parameters."""
        criterion = nn.CrossEntropyLoss(reduction="sum", label_smoothing=self.label_smoothing)
        return SupervisedObjective(criterion=criterion)


@dataclass(frozen=True)
class CrossEntropyOPL(Method):
    """Cross-entropy and OPL on the same features; with several processes, OPL is computed on the global batch."""

    weight: NotNegative = WEIGHT
    """The paper's lambda."""
    gamma: NotNegative = GAMMA
    """Weight of d relative to s."""
    form: Form = FORM
    """How d is computed; on pooled ReLU features all forms but `squared` give the same value."""
    label_smoothing: FractionBelowOne = CrossEntropy.label_smoothing

    @property
    def opl(self) -> OPL:
        """The settings of OPL."""
        return OPL(self.weight, self.gamma, self.form)

    def baseline(self) -> CrossEntropy:
        """Return cross-entropy alone, with the same label smoothing."""
        return CrossEntropy(label_smoothing=self.label_smoothing)

    def build(self, shape: TaskShape) -> Objective:
        """Build the objective, which has no parameters."""
        criterion = nn.CrossEntropyLoss(reduction="sum", label_smoothing=self.label_smoothing)
        return SupervisedObjective(build_terms((self.opl,), shape), criterion)
