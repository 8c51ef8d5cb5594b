"""SKD's first generation: classification, and prediction of the rotation of an image from its class logits."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..._ranges import NotNegative
from ..types import Batch, Output, TaskShape
from .auxiliaries import AuxiliaryMethod, build_terms
from .base import Objective, SupervisedObjective, Term

TURNS = 4


@dataclass(frozen=True)
class Rotations(AuxiliaryMethod):
    """Cross-entropy on each image and its rotations by 90, 180 and 270 degrees, plus `weight` * rotation loss.

    The rotation loss is the binary cross-entropy of a linear layer that predicts the rotation from the *class logits*.
    Auxiliary losses such as OPL use the features of all four rotations, as cross-entropy does.
    """

    weight: NotNegative = 2.0
    """Weight of the rotation loss; SKD's alpha."""

    def build(self, shape: TaskShape) -> Objective:
        """Build the objective, which contains the layer that predicts the rotation."""
        turns = {"rotation": (self.weight, RotationTerm(shape.num_classes))}
        terms = {**turns, **build_terms(self.auxiliary, shape)}
        return SupervisedObjective(terms, change=lambda _, batch: append_rotations(batch))


class RotationTerm(Term):
    """Binary cross-entropy of the predicted rotation, averaged over images and the four outputs.

    Expects the layout of `append_rotations`: all images, then all images rotated by 90, by 180 and by 270 degrees.
    """

    def __init__(self, num_classes: int) -> None:
        super().__init__()
        self.fc = nn.Linear(num_classes, TURNS)

    def forward(self, model: nn.Module, output: Output, batch: Batch) -> Tensor:
        """Return this process's part of the mean over the global batch."""
        turns = torch.arange(TURNS, device=output.logits.device).repeat_interleave(len(output.logits) // TURNS)
        logits = self.fc(output.logits)
        value = F.binary_cross_entropy_with_logits(logits, F.one_hot(turns, TURNS).to(logits), reduction="sum")
        return value * batch.sample_weight / TURNS


def append_rotations(batch: Batch) -> Batch:
    """Append the batch rotated counter-clockwise by 90, 180 and 270 degrees; each copy has a quarter of the weight.

    Example:
        >>> batch = Batch(torch.zeros(2, 3, 8, 8), torch.tensor([5, 6]), torch.tensor([0, 1]), 0.5)
        >>> append_rotations(batch).labels
        tensor([5, 6, 5, 6, 5, 6, 5, 6])
    """
    images = torch.cat([batch.images.rot90(turns, (2, 3)) for turns in range(TURNS)])
    layout = torch.channels_last if batch.images.is_contiguous(memory_format=torch.channels_last) else None
    images = images.contiguous(memory_format=layout) if layout else images
    return Batch(images, batch.labels.repeat(TURNS), batch.rows.repeat(TURNS), batch.sample_weight / TURNS)
