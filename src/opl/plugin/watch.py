"""One warning if gamma stays too small to lower d."""

import warnings

from torch import Tensor

from ..errors import OplWarning

STEPS = 400  # about an epoch of CIFAR at the paper's batch size


class GammaWatch:
    """Compares gamma with what is needed, as means over some hundred steps; warns once."""

    def __init__(self, steps: int = STEPS) -> None:
        self.steps, self.count, self.warned = steps, 0, False
        self.gamma: Tensor | float = 0.0
        self.needed: Tensor | float = 0.0

    def add(self, gamma: Tensor | None, needed: Tensor | None) -> None:
        """Add a step; values are read, which synchronizes with an accelerator, only once in `steps` steps."""
        if self.warned or gamma is None or needed is None:
            return
        self.gamma, self.needed, self.count = self.gamma + gamma.detach(), self.needed + needed.detach(), self.count + 1
        if self.count == self.steps:
            self.judge(float(self.gamma) / self.count, float(self.needed) / self.count, f"the last {self.count} steps")
            self.gamma, self.needed, self.count = 0.0, 0.0, 0

    def judge(self, gamma: float, needed: float, when: str) -> None:
        """Warn if gamma is smaller than needed, unless that was said before."""
        if self.warned or gamma >= needed:
            return
        self.warned = True
        warnings.warn(
            f"gamma was {gamma:.2f} on average over {when}, and OPL lowers d only with a gamma above (1 - s) / (1 - d) "
            f"({needed:.2f}); below it, OPL raises d. That is usual early in training; if it lasts, give gamma='auto' "
            "or an opl.Ramp.",
            OplWarning,
            stacklevel=2,
        )
