"""Distillation from labels and a teacher: the "born again" networks of RFS, over several generations."""

from dataclasses import dataclass

from torch import Tensor, nn

from ..._ranges import Fraction, Positive, check_settings
from ...losses import knowledge
from ...losses.knowledge import KnowledgeDistillationLoss
from ..types import Batch, Output, TaskShape
from .auxiliaries import AuxiliaryMethod, build_terms
from .base import Objective, SupervisedObjective
from .teacher import Teacher
from .terms import Term


@dataclass(frozen=True)
class Distillation(AuxiliaryMethod):
    """`(1 - weight) * cross-entropy + weight * KL(teacher || student)`, plus auxiliary losses.

    The teacher is the run named by the recipe's `after`; it has the same shape, and in RFS it is the previous
    generation.
    """

    weight: Fraction = 0.5
    """Weight of the teacher's predictions; the labels have weight `1 - weight`."""
    temperature: Positive = knowledge.TEMPERATURE

    def build(self, shape: TaskShape) -> Objective:
        """Build the objective; the teacher is not part of its state."""
        check_settings(self)
        taught = TeacherTerm(Teacher.of(shape), self.temperature)
        terms = {"distillation": (self.weight, taught), **build_terms(self.auxiliary, shape)}
        return SupervisedObjective(nn.CrossEntropyLoss(reduction="sum"), terms=terms, weight=1 - self.weight)


class TeacherTerm(Term):
    """Knowledge distillation of the logits from the teacher, over the global batch."""

    def __init__(self, teacher: Teacher, temperature: float) -> None:
        super().__init__()
        self.teacher, self.loss = teacher, KnowledgeDistillationLoss(temperature=temperature, reduction="sum")

    def forward(self, model: nn.Module, output: Output, batch: Batch) -> Tensor:
        """Return this process's part of the mean over the global batch."""
        value: Tensor = self.loss(output.logits, self.teacher.logits(batch.images))
        return value * batch.sample_weight
