"""SKD's second generation: distillation from the first, and equal logits for an image and its 180-degree rotation."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ..._ranges import NotNegative, Positive
from ...losses.knowledge import KnowledgeDistillationLoss
from ..types import Batch, Output, TaskShape
from .auxiliaries import AuxiliaryMethod, build_terms
from .base import Losses, Objective
from .teacher import Teacher


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
        output, twins = (Output(*(part[half] for part in both)) for half in halves(len(batch.labels)))
        sums = {
            "distillation": (1.0, self.loss(output.logits, self.teacher.logits(batch.images))),
            "twins": (self.weight, sum_of_distances(output.logits, twins.logits)),
        }
        return Losses(sums, output, batch)


def halves(rows: int) -> tuple[slice, slice]:
    """Return the slices of the images and of their twins."""
    return slice(0, rows), slice(rows, 2 * rows)


def sum_of_distances(one: Tensor, other: Tensor) -> Tensor:
    """Return the sum over samples of the distance between two vectors; the gradient is 0 where they are equal."""
    squares = (one - other).square().sum(1)
    there = squares > 0
    return torch.where(there, torch.where(there, squares, 1.0).sqrt(), 0.0).sum()
