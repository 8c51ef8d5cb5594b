"""SKD's first generation: classes and, from the class logits, by how many quarter turns an image was turned."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..types import Batch, Output, TaskShape
from .auxiliaries import AuxiliaryMethod, build_terms
from .base import Losses, Objective, SupervisedObjective
from .terms import Term

TURNS = 4


@dataclass(frozen=True)
class Rotations(AuxiliaryMethod):
    """Every image also turned by 90, 180 and 270 degrees: cross-entropy of all four, plus `weight` times the binary
    cross-entropy of a linear layer that tells the turns from the *class logits*.

    Auxiliary losses, OPL for instance, see the features of all four too, as cross-entropy does.
    """

    weight: float = 2.0
    """Of the turns; SKD's alpha."""

    def build(self, shape: TaskShape) -> Objective:
        """The objective; the layer that tells the turns is in it."""
        turns = {"rotation": (self.weight, RotationTerm(shape.num_classes))}
        terms = {**turns, **build_terms(self.auxiliary, shape)}
        return RotationObjective(nn.CrossEntropyLoss(reduction="sum"), terms=terms)


class RotationObjective(SupervisedObjective):
    """The objective of the batch in all four turns."""

    def losses(self, model: nn.Module, batch: Batch) -> Losses:
        """The criterion of all four turns."""
        return super().losses(model, append_rotations(batch))


class RotationTerm(Term):
    """Mean over images and turns of the binary cross-entropy with the turn that was made.

    Expects the batch as `append_rotations` lays it out: all images, then all of them turned once, twice, three times.
    """

    def __init__(self, num_classes: int) -> None:
        super().__init__()
        self.fc = nn.Linear(num_classes, TURNS)

    def forward(self, model: nn.Module, output: Output, batch: Batch) -> Tensor:
        """The loss as a part of the global mean."""
        turns = torch.arange(TURNS, device=output.logits.device).repeat_interleave(len(output.logits) // TURNS)
        logits = self.fc(output.logits)
        value = F.binary_cross_entropy_with_logits(logits, F.one_hot(turns, TURNS).to(logits), reduction="sum")
        return value * batch.sample_weight / TURNS


def append_rotations(batch: Batch) -> Batch:
    """The batch, then the batch turned by 90, 180 and 270 degrees, counter-clockwise; one image counts a fourth.

    Example:
        >>> batch = Batch(torch.zeros(2, 3, 8, 8), torch.tensor([5, 6]), torch.tensor([0, 1]), 0.5)
        >>> append_rotations(batch).labels
        tensor([5, 6, 5, 6, 5, 6, 5, 6])
    """
    images = torch.cat([batch.images.rot90(turns, (2, 3)) for turns in range(TURNS)])
    layout = torch.channels_last if batch.images.is_contiguous(memory_format=torch.channels_last) else None
    images = images.contiguous(memory_format=layout) if layout else images
    return Batch(images, batch.labels.repeat(TURNS), batch.rows.repeat(TURNS), batch.sample_weight / TURNS)
