"""A teacher of an objective: a trained network that predicts, and is never trained, saved or counted."""

import torch
from torch import Tensor, nn

from ...errors import OptionError
from ..types import TaskShape


class Teacher:
    """Predictions of a network in evaluation mode, without gradients. No module, so that no optimizer and no checkpoint
    finds its weights: they are in the folder of their own run."""

    def __init__(self, network: nn.Module) -> None:
        self.network = network.eval().requires_grad_(False)

    @classmethod
    def of(cls, shape: TaskShape) -> "Teacher":
        """That of a task; a recipe that names none is refused."""
        if shape.teacher is None:
            raise OptionError("this method learns from an earlier run: name its recipe with after=..., or --after.")
        return cls(shape.teacher)

    @torch.no_grad()
    def logits(self, images: Tensor) -> Tensor:
        """(B, C), on the device of the images."""
        logits: Tensor = self.network.to(images.device)(images).logits
        return logits
