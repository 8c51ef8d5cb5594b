"""Any head, any criterion, any losses beside it: the baselines of table 1, and OPL added to any of them."""

from dataclasses import dataclass, field

from torch import nn

from ..types import TaskShape
from .auxiliaries import Auxiliary, build_terms
from .base import HeadPenaltyTerm, Objective
from .criteria import Criterion, Softmax
from .heads import HeadSettings


@dataclass(frozen=True)
class Composite:
    """`criterion(head(features), labels) + sum of weight * auxiliary(features, labels)`.

    Example:
        >>> from opl.experiments.methods import ArcFace, OPL
        >>> method = Composite(head=ArcFace(scale=30.0), auxiliary=(OPL(weight=0.5),))
    """

    head: HeadSettings | None = None
    """None keeps the model's own linear classifier."""
    criterion: Criterion = field(default_factory=Softmax)
    auxiliary: tuple[Auxiliary, ...] = ()

    def build(self, shape: TaskShape) -> nn.Module:
        """The objective; what its parts learn (centers) is in it, the head is in the model."""
        terms = build_terms(self.auxiliary, shape)
        weight = getattr(self.head, "weight", None)
        if weight is not None:
            terms["head"] = (weight, HeadPenaltyTerm())
        return Objective(self.criterion.build(shape), self.criterion.name, terms, guided=self.head is not None)
