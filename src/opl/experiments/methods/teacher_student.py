"""Distillation from the network of an earlier run: the "born again" networks of RFS, and SKD's second generation."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ..._ranges import Fraction, NotNegative, Positive
from ...errors import OptionError
from ...losses import knowledge
from ...losses.knowledge import KnowledgeDistillationLoss
from ..types import Batch, Output, TaskShape
from .auxiliaries import AuxiliaryMethod, build_terms
from .base import Losses, Objective, SupervisedObjective, Term


class Teacher:
    """A network in evaluation mode, without gradients.

    It is not a module, so no optimizer or checkpoint includes its weights; they are stored in the folder of their run.
    """

    def __init__(self, network: nn.Module) -> None:
        self.network = network.eval().requires_grad_(False)

    @classmethod
    def of(cls, shape: TaskShape) -> "Teacher":
        """Return the teacher of a task; raise `OptionError` if the recipe names none."""
        if shape.teacher is None:
            raise OptionError(
                "this method needs a teacher: name the recipe of a finished run with after=... or --after."
            )
        return cls(shape.teacher)

    @torch.no_grad()
    def logits(self, images: Tensor) -> Tensor:
        """Return (B, C) logits, on the device of the images."""
        logits: Tensor = self.network.to(images.device)(images).logits
        return logits


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
        term = TeacherTerm(Teacher.of(shape), self.temperature)
        terms = {"distillation": (self.weight, term), **build_terms(self.auxiliary, shape)}
        return SupervisedObjective(terms, weight=1 - self.weight)


class TeacherTerm(Term):
    """Knowledge distillation of the logits from the teacher, over the global batch."""

    def __init__(self, teacher: Teacher, temperature: float) -> None:
        super().__init__()
        self.teacher, self.loss = teacher, KnowledgeDistillationLoss(temperature=temperature, reduction="sum")

    def forward(self, model: nn.Module, output: Output, batch: Batch) -> Tensor:
        """Return this process's part of the mean over the global batch."""
        value: Tensor = self.loss(output.logits, self.teacher.logits(batch.images))
        return value * batch.sample_weight


@dataclass(frozen=True)
class TwinDistillation(AuxiliaryMethod):
    """`KL(teacher || student) + weight / 3 * |logits(image) - logits(image rotated by 180 degrees)|`, without labels.

    Student and teacher start with equal weights: the recipe `inherit`s the run that it comes `after`. The factor 1/3 is
    a remnant in the original code of a version with three rotations; it is kept so that `weight` has the published
    meaning. Auxiliary losses use the unrotated images.
    """

    weight: NotNegative = 0.1
    """Weight of the distance between an image and its rotated twin; SKD's beta."""
    temperature: Positive = 2.0

    def build(self, shape: TaskShape) -> Objective:
        """Build the objective; the teacher is not part of its state."""
        return TwinObjective(Teacher.of(shape), self, shape)


class TwinObjective(Objective):
    """Runs images and their rotated twins in one forward pass; terms use the images only."""

    def __init__(self, teacher: Teacher, settings: TwinDistillation, shape: TaskShape) -> None:
        super().__init__(build_terms(settings.auxiliary, shape))
        self.teacher, self.weight = teacher, settings.weight / 3
        self.loss = KnowledgeDistillationLoss(temperature=settings.temperature, reduction="sum")

    def losses(self, model: nn.Module, batch: Batch) -> Losses:
        """Compute the distillation loss and the distance between images and twins."""
        both: Output = model(torch.cat([batch.images, batch.images.rot90(2, (2, 3))]))
        output, twins = map(Output, *(part.chunk(2) for part in both))
        sums = {
            "distillation": (1.0, self.loss(output.logits, self.teacher.logits(batch.images))),
            "twins": (self.weight, sum_of_distances(output.logits, twins.logits)),
        }
        return Losses(sums, output, batch)


def sum_of_distances(logits: Tensor, twins: Tensor) -> Tensor:
    """Return the sum over samples of the distance between two vectors; the gradient is 0 where they are equal."""
    squares = (logits - twins).square().sum(1)
    differ = squares > 0
    return torch.where(differ, torch.where(differ, squares, 1.0).sqrt(), 0.0).sum()
