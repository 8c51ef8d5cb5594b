"""Settings that change from step to step, as a function of the step alone."""

import torch
from torch import Tensor, nn


def ramp(step: Tensor, steps: int) -> Tensor | float:
    """How much of a setting is there: from 0 at step 0 to all of it after `steps` steps, in a straight line."""
    return (step / max(1, steps)).clamp(max=1) if steps else 1.0


class StepCounter(nn.Module):
    """A part with a setting that changes from step to step.

    It counts its own training calls, in a buffer, so that a checkpoint knows where it was; a training loop that knows
    its step says so with `set_step`, and then the setting is a function of that step and of nothing else.
    """

    step: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("step", torch.zeros((), dtype=torch.long))

    def set_step(self, step: int) -> None:
        """The next call is that of this step, counted from 0."""
        self.step.fill_(step)

    def tick(self) -> Tensor:
        """The step of this call; a call in training mode is counted."""
        now = self.step
        if self.training:
            self.step = now + 1  # not in place: a compiled backward would read the next step
        return now
