"""Gamma that is no constant: as large as the batches need, or growing during training."""

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from ..errors import OptionError, did_you_mean
from ..functional import GAMMA, gamma_needed, is_number
from .ranges import Count, FractionBelowOne, check_settings
from .running_mean import MOMENTUM, RunningMean
from .step_counter import StepCounter, ramp

Shape = Literal["linear", "cosine"]


@dataclass(frozen=True)
class Ramp:
    """Gamma that goes from `start` to `end` during the first `steps` training steps, and then stays there.

    Example:
        >>> from opl import OrthogonalProjectionLoss
        >>> loss = OrthogonalProjectionLoss(gamma=Ramp(0.0, 2.0, steps=10_000))
    """

    start: float = 0.0
    end: float = 1.0
    steps: Count = 10_000
    shape: Shape = "linear"

    def __post_init__(self) -> None:
        check_settings(self, "gamma.")


@dataclass(frozen=True)
class AutoGamma:
    """The smallest gamma that lowers d, plus a margin: `max(floor, (1 - s) / (1 - d) + margin)`.

    s and d are running means over batches. `gamma="auto"` takes these defaults.
    """

    floor: float = GAMMA
    margin: float = 0.1
    momentum: FractionBelowOne = MOMENTUM

    def __post_init__(self) -> None:
        check_settings(self, "gamma.")


Gamma = float | Literal["auto"] | AutoGamma | Ramp


@dataclass(frozen=True)
class ConstantGamma:
    """The same gamma always, without state."""

    value: float

    def __call__(self, same: Tensor, other: Tensor) -> Tensor | float:
        """Return gamma for a batch with this s and d."""
        return self.value


class NeededGamma(nn.Module):
    """Gamma by the rule of `AutoGamma`; its state is the running means of s and d."""

    def __init__(self, settings: AutoGamma) -> None:
        super().__init__()
        self.settings = settings
        self.means = RunningMean((1.0, 0.0), settings.momentum)

    def forward(self, same: Tensor, other: Tensor) -> Tensor | float:
        """Return gamma for a batch with this s and d."""
        mean_same, mean_other = self.means(same, other)
        return (gamma_needed(mean_same, mean_other) + self.settings.margin).clamp(min=self.settings.floor)


class RampedGamma(StepCounter):
    """Gamma as a function of the training step; its state is that step."""

    def __init__(self, settings: Ramp) -> None:
        super().__init__()
        self.settings = settings

    def forward(self, same: Tensor, other: Tensor) -> Tensor | float:
        """Return gamma for this step."""
        way = torch.as_tensor(ramp(self.tick(), self.settings.steps), dtype=same.dtype)
        if self.settings.shape == "cosine":
            way = (1 - torch.cos(math.pi * way)) / 2
        return self.settings.start + (self.settings.end - self.settings.start) * way


GammaRule = ConstantGamma | NeededGamma | RampedGamma


def gamma_rule(gamma: Gamma) -> GammaRule:
    """Return the module that gives gamma for each batch; raise `OptionError` if there is none."""
    if isinstance(gamma, Ramp):
        return RampedGamma(gamma)
    if isinstance(gamma, AutoGamma):
        return NeededGamma(gamma)
    if isinstance(gamma, str):
        if gamma != "auto":
            raise OptionError(did_you_mean("gamma", gamma, ("auto",)))
        return NeededGamma(AutoGamma())
    if not is_number(gamma) or not math.isfinite(gamma):
        raise OptionError(
            f"gamma is {gamma!r}: give a finite number such as 0.5, the paper's choice, 'auto', or a Ramp."
        )
    return ConstantGamma(float(gamma))
