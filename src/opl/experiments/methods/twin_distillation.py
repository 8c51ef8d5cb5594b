"""SKD's second generation: the answers of the first, and the same answer for an image and for it turned upside down."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ..._support.arguments import check_positive
from ...losses.knowledge import KnowledgeDistillationLoss
from ..types import Batch, Output, TaskShape
from .auxiliaries import AuxiliaryMethod, build_terms
from .base import Losses, Objective
from .teacher import Teacher


@dataclass(frozen=True)
class TwinDistillation(AuxiliaryMethod):
    """`KL(teacher || student) + weight / 3 * |logits(image) - logits(image turned by 180 degrees)|`, no labels.

    Student and teacher start equal: a recipe `inherit`s the run that it comes `after`. The third is left over in the
    source from a version with three turns, and is part of what its weights mean. Auxiliary losses see the images as
    they are.
    """

    weight: float = 0.1
    """Of the twins; SKD's beta."""
    temperature: float = 2.0

    def build(self, shape: TaskShape) -> Objective:
        """The objective; the teacher is no part of its state."""
        return TwinObjective(Teacher.of(shape), self, shape)


class TwinObjective(Objective):
    """The objective: images and twins go through the network together; terms see the images."""

    def __init__(self, teacher: Teacher, settings: TwinDistillation, shape: TaskShape) -> None:
        super().__init__(build_terms(settings.auxiliary, shape))
        self.teacher, self.weight = teacher, settings.weight / 3
        self.loss = KnowledgeDistillationLoss(check_positive("temperature", settings.temperature), "sum")

    def losses(self, model: nn.Module, batch: Batch) -> Losses:
        """The distance from the teacher, and that between images and twins."""
        both: Output = model(torch.cat([batch.images, batch.images.rot90(2, (2, 3))]))
        output, twins = (Output(*(part[half] for part in both)) for half in halves(len(batch.labels)))
        sums = {
            "distillation": (1.0, self.loss(output.logits, self.teacher.logits(batch.images))),
            "twins": (self.weight, sum_of_distances(output.logits, twins.logits)),
        }
        return Losses(sums, output, batch)


def halves(rows: int) -> tuple[slice, slice]:
    """The images, and their twins."""
    return slice(0, rows), slice(rows, 2 * rows)


def sum_of_distances(one: Tensor, other: Tensor) -> Tensor:
    """The sum over samples of the distance between two vectors; where they are equal it has the gradient 0."""
    squares = (one - other).square().sum(1)
    there = squares > 0
    return torch.where(there, torch.where(there, squares, 1.0).sqrt(), 0.0).sum()
