"""Settings of losses on the logits: each has a name for the records and builds a module that returns sums."""

from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from ..._ranges import FractionBelowOne, NotNegative
from ...losses import AnchorLoss, ClassBalancedFocalLoss, FocalLoss, LogitAdjustmentLoss
from ..types import TaskShape
from .signature import SignatureSettings, from_signature


class GeneratedCriterion(SignatureSettings):
    """Base class of the settings of criteria."""

    def build(self, shape: TaskShape) -> nn.Module:
        """Build the module."""
        criterion: nn.Module = self.construct(shape, reduction="sum")
        return criterion


@dataclass(frozen=True)
class Softmax:
    """Softmax cross-entropy."""

    name: ClassVar[str] = "entropy"
    label_smoothing: FractionBelowOne = 0.0

    def build(self, shape: TaskShape) -> nn.Module:
        """Build the module."""
        return nn.CrossEntropyLoss(reduction="sum", label_smoothing=self.label_smoothing)


@from_signature(FocalLoss)
class Focal(GeneratedCriterion):
    """Focal loss; gamma 0 is cross-entropy."""

    name: ClassVar[str] = "focal"


@from_signature(ClassBalancedFocalLoss)
class ClassBalancedFocal(GeneratedCriterion):
    """Focal loss with classes weighted by the effective number of their training images."""

    name: ClassVar[str] = "class_balanced_focal"


@from_signature(LogitAdjustmentLoss)
class LogitAdjustment(GeneratedCriterion):
    """Cross-entropy whose logits are shifted by the log-frequencies of the classes in training."""

    name: ClassVar[str] = "logit_adjustment"


@from_signature(AnchorLoss)
class Anchor(GeneratedCriterion):
    """Anchor loss after some epochs of softmax cross-entropy.

    Args:
        warmup: epochs of softmax cross-entropy.
    """

    name: ClassVar[str] = "anchor"
    warmup: NotNegative = 5.0

    def construct(self, shape: TaskShape, **options: object) -> nn.Module:
        """Build the loss, which counts the warm-up in steps."""
        return super().construct(shape, warmup=round(self.warmup * shape.steps), **options)  # type: ignore[no-any-return]


Criterion = Softmax | Focal | ClassBalancedFocal | LogitAdjustment | Anchor
