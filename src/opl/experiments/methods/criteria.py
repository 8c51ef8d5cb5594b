"""Settings of losses on the logits: each has a name for the records and builds a module that returns sums."""

from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from ..._ranges import Fraction, FractionBelowOne, NotNegative
from ...losses import anchor, class_balanced, focal
from ...losses.anchor import AnchorLoss
from ...losses.class_balanced import ClassBalancedFocalLoss
from ...losses.focal import FocalLoss
from ..types import TaskShape


@dataclass(frozen=True)
class Softmax:
    """Softmax cross-entropy."""

    name: ClassVar[str] = "entropy"
    label_smoothing: FractionBelowOne = 0.0

    def build(self, shape: TaskShape) -> nn.Module:
        """Build the module."""
        return nn.CrossEntropyLoss(reduction="sum", label_smoothing=self.label_smoothing)


@dataclass(frozen=True)
class Focal:
    """Focal loss; gamma 0 is cross-entropy."""

    name: ClassVar[str] = "focal"
    gamma: NotNegative = focal.GAMMA
    form: focal.FocalForm = focal.FORM

    def build(self, shape: TaskShape) -> nn.Module:
        """Build the module."""
        return FocalLoss(gamma=self.gamma, form=self.form, reduction="sum")


@dataclass(frozen=True)
class ClassBalancedFocal:
    """Focal loss with classes weighted by the effective number of their training images."""

    name: ClassVar[str] = "class_balanced_focal"
    beta: FractionBelowOne = class_balanced.BETA
    gamma: NotNegative = class_balanced.GAMMA
    form: focal.FocalForm = class_balanced.FORM

    def build(self, shape: TaskShape) -> nn.Module:
        """Build the module for the class counts of the training set."""
        return ClassBalancedFocalLoss(shape.counts, beta=self.beta, gamma=self.gamma, form=self.form, reduction="sum")


@dataclass(frozen=True)
class Anchor:
    """Anchor loss after some epochs of softmax cross-entropy."""

    name: ClassVar[str] = "anchor"
    gamma: NotNegative = anchor.GAMMA
    delta: Fraction = anchor.DELTA
    variant: anchor.Variant = anchor.VARIANT
    warmup: NotNegative = 5.0
    """Epochs of softmax cross-entropy."""

    def build(self, shape: TaskShape) -> nn.Module:
        """Build the module."""
        warmup = round(self.warmup * shape.steps)
        return AnchorLoss(gamma=self.gamma, delta=self.delta, variant=self.variant, warmup=warmup, reduction="sum")


Criterion = Softmax | Focal | ClassBalancedFocal | Anchor
