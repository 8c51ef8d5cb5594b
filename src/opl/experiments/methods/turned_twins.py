"""SKD's second generation: the answers of the first, and the same answer for an image and for it turned upside down."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ..._support.arguments import check_positive
from ...losses.knowledge import KnowledgeDistillationLoss
from ..types import Batch, Output, TaskShape, Terms
from .auxiliaries import Auxiliary, build_terms
from .teacher import Teacher


@dataclass(frozen=True)
class TwinDistillation:
    """`KL(teacher || student) + weight / 3 * |logits(image) - logits(image turned by 180 degrees)|`, no labels.

    Student and teacher start equal: a recipe `inherit`s the run that it comes `after`. The third is left over in the
    source from a version with three turns, and is part of what its weights mean. Losses beside it see the images as
    they are.
    """

    weight: float = 0.1
    """Of the twins; SKD's beta."""
    temperature: float = 2.0
    auxiliary: tuple[Auxiliary, ...] = ()

    def build(self, shape: TaskShape) -> nn.Module:
        """The objective; the teacher is no part of its state."""
        return TwinObjective(Teacher.of(shape), self, shape)


class TwinObjective(nn.Module):
    """The objective: images and twins go through the network together."""

    def __init__(self, teacher: Teacher, settings: TwinDistillation, shape: TaskShape) -> None:
        super().__init__()
        self.teacher, self.weight = teacher, settings.weight / 3
        self.loss = KnowledgeDistillationLoss(check_positive("temperature", settings.temperature), "sum")
        beside = build_terms(settings.auxiliary, shape)
        self.terms = nn.ModuleDict({name: term for name, (_, term) in beside.items()})
        self.weights = {name: weight for name, (weight, _) in beside.items()}

    def forward(self, model: nn.Module, batch: Batch) -> Terms:
        """The loss of one batch."""
        both: Output = model(torch.cat([batch.images, batch.images.rot90(2, (2, 3))]))
        output, twins = (Output(*(part[half] for part in both)) for half in halves(len(batch.labels)))
        parts = {
            "distillation": self.loss(output.logits, self.teacher.logits(batch.images)) * batch.sample_weight,
            "twins": sum_of_distances(output.logits, twins.logits) * batch.sample_weight,
        }
        total = parts["distillation"] + self.weight * parts["twins"]
        for name, term in self.terms.items():
            parts[name] = term(model, output, batch)
            total = total + self.weights[name] * parts[name]
        return Terms(total, parts)


def halves(rows: int) -> tuple[slice, slice]:
    """The images, and their twins."""
    return slice(0, rows), slice(rows, 2 * rows)


def sum_of_distances(one: Tensor, other: Tensor) -> Tensor:
    """The sum over samples of the distance between two vectors; where they are equal it has the gradient 0."""
    squares = (one - other).square().sum(1)
    there = squares > 0
    return torch.where(there, torch.where(there, squares, 1.0).sqrt(), 0.0).sum()
