"""Settings that change during training, as a function of the step alone."""

import torch
from torch import Tensor, nn


def ramp(step: Tensor, steps: int) -> Tensor | float:
    """Return a linear ramp: 0 at step 0, 1 from step `steps` on."""
    return (step / max(1, steps)).clamp(max=1) if steps else 1.0


class StepCounter(nn.Module):
    """A module with a setting that depends on the training step.

    It counts its calls in training mode in a buffer, so that a checkpoint includes the count. A training loop can set
    the step with `set_step`; the setting then depends on that step alone.
    """

    step: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("step", torch.zeros((), dtype=torch.long))

    def set_step(self, step: int) -> None:
        """Set the step of the next call, counted from 0."""
        self.step.fill_(step)

    def tick(self) -> Tensor:
        """Return the step of this call, and increase the count in training mode."""
        now = self.step
        if self.training:
            self.step = now + 1  # not in place, because a compiled backward pass would read the increased value
        return now
