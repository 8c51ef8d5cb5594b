"""The teacher of an objective: a trained network that only predicts; it is not trained, saved or counted with it."""

import torch
from torch import Tensor, nn

from ...errors import OptionError
from ..types import TaskShape


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
            raise OptionError("this method learns from an earlier run: name its recipe with after=..., or --after.")
        return cls(shape.teacher)

    @torch.no_grad()
    def logits(self, images: Tensor) -> Tensor:
        """Return (B, C) logits, on the device of the images."""
        logits: Tensor = self.network.to(images.device)(images).logits
        return logits
