"""Any combination of head, criterion and auxiliary losses: the baselines of table 1, with or without OPL."""

from dataclasses import dataclass, field

from torch import Tensor, nn

from ...heads import Head
from ..models.modes import unwrap
from ..types import Batch, Output, TaskShape
from .auxiliaries import AuxiliaryMethod, build_terms
from .base import Objective, SupervisedObjective, Term, batch_share
from .criteria import Criterion, Softmax
from .heads import HeadChoice


@dataclass(frozen=True)
class Composite(AuxiliaryMethod):
    """`criterion(head(features), labels) + sum of weight * auxiliary(features, labels)`.

    Example:
        >>> from opl.experiments.methods import OPL, heads
        >>> method = Composite(head=heads.ArcFace(scale=30.0), auxiliary=(OPL(weight=0.5),))
    """

    head: HeadChoice | None = None
    """None keeps the linear classifier of the model."""
    criterion: Criterion = field(default_factory=Softmax)

    def build(self, shape: TaskShape) -> Objective:
        """Build the objective; it contains what its terms learn (centers), while the head is part of the model."""
        smoothing = self.criterion.label_smoothing if isinstance(self.criterion, Softmax) else 0.0
        terms = dict(build_terms(self.auxiliary, shape._replace(label_smoothing=smoothing)))
        if self.head is not None and self.head.penalty_weight is not None:
            terms["head"] = (self.head.penalty_weight, HeadPenaltyTerm())
        criterion = self.criterion.build(shape)
        return SupervisedObjective(terms, criterion, self.criterion.name, guided=self.head is not None)


class HeadPenaltyTerm(Term):
    """The penalty of the model's head, for instance the likelihood term of LGM."""

    def forward(self, model: nn.Module, output: Output, batch: Batch) -> Tensor:
        """Return this process's part of the mean penalty over the global batch."""
        head = unwrap(model).get_submodule("fc")
        assert isinstance(head, Head)  # the head of the method
        return head.penalty(output.features, batch.labels) * batch_share(batch)
