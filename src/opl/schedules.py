"""Settings that change during training: a function of the step, or a gamma as large as the batches need."""

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from ._kernels.validate import is_number, is_readable
from ._ranges import Count, CountOrZero, FractionBelowOne, NotNegative, check_settings
from .errors import OptionError, did_you_mean
from .functional import GAMMA

Shape = Literal["linear", "cosine"]
MOMENTUM = 0.99  # about the last hundred batches
_TINY = 1e-6  # all features in one direction: s = d = 1


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


@dataclass(frozen=True)
class Ramp:
    """A gamma or weight that goes from `start` to `end` within `steps` training steps, and then stays there.

    Args:
        start: the value at first, and during the `delay`.
        end: the value at last.
        steps: the number of training steps from `start` to `end`.
        delay: the number of training steps before the ramp begins, for a late start.
        shape: `"linear"`, or half a `"cosine"`.

    Example:
        >>> from opl import OrthogonalProjectionLoss
        >>> loss = OrthogonalProjectionLoss(gamma=Ramp(0.0, 2.0, steps=2, delay=1))
        >>> features, labels = torch.tensor([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0]]), torch.tensor([0, 0, 1])
        >>> [loss(features, labels).item() for _ in range(5)]  # s and d are 1, so that the loss is gamma
        [0.0, 0.0, 1.0, 2.0, 2.0]
    """

    start: NotNegative = 0.0
    end: NotNegative = 1.0
    steps: Count = 10_000
    delay: CountOrZero = 0
    shape: Shape = "linear"

    def __post_init__(self) -> None:
        check_settings(self, "Ramp.")


@dataclass(frozen=True)
class AutoGamma:
    """A gamma that is large enough to lower d, plus a margin: `max(floor, (1 - s) / (1 - d) + margin)`.

    s and d are running means over batches. The quotient is the limit of `opl.functional.gamma_needed` for many classes,
    which is at least as large as the gamma that is needed for a finite number. `gamma="auto"` uses these defaults.

    Example:
        >>> from opl import OrthogonalProjectionLoss
        >>> loss = OrthogonalProjectionLoss(gamma=AutoGamma(floor=0.5, margin=0.2))
    """

    floor: NotNegative = GAMMA
    margin: NotNegative = 0.1
    momentum: FractionBelowOne = MOMENTUM

    def __post_init__(self) -> None:
        check_settings(self, "AutoGamma.")


Gamma = float | Literal["auto"] | AutoGamma | Ramp


@dataclass(frozen=True)
class ConstantGamma:
    """The same gamma always, without state."""

    value: float

    def __call__(self, same: Tensor, other: Tensor) -> Tensor | float:
        """Return gamma for a batch with this s and d."""
        return self.value


class NeededGamma(nn.Module):
    """Gamma by the rule of `AutoGamma`; its state is two numbers, the running sums of 1 - s and 1 - d.

    Their quotient needs no correction for the first batches. A batch that lacks pairs of either kind, or whose s or d
    is not finite, does not count.
    """

    within: Tensor
    between: Tensor

    def __init__(self, settings: AutoGamma) -> None:
        super().__init__()
        self.settings = settings
        self.register_buffer("within", torch.tensor(0.0))
        self.register_buffer("between", torch.tensor(1e-30))  # so that gamma is its floor before the first batch

    def forward(self, same: Tensor, other: Tensor) -> Tensor | float:
        """Return gamma for a batch with this s and d."""
        return (self._by_numbers if is_readable(same) else self._by_tensors)(same, other)

    @torch.no_grad()
    def _by_tensors(self, same: Tensor, other: Tensor) -> Tensor:
        within, between = self.within.to(same), self.between.to(same)
        if self.training:
            counts = (same != 0) & (other != 0) & (same + other).isfinite()
            share = 1 - self.settings.momentum
            within = torch.where(counts, within.lerp((1 - same).clamp(min=_TINY), share), within)
            between = torch.where(counts, between.lerp((1 - other).clamp(min=_TINY), share), between)
            # not in place, because a compiled backward pass would read the new values
            self.within, self.between = within.to(self.within.dtype), between.to(self.between.dtype)
        gamma: Tensor = (within / between + self.settings.margin).clamp(min=self.settings.floor)
        return gamma

    def _by_numbers(self, same: Tensor, other: Tensor) -> float:
        """Do the same in Python, in less time than a dozen operations on tensors take."""
        within, between, s, d = self.within.item(), self.between.item(), same.item(), other.item()
        if self.training and s and d and math.isfinite(s + d):
            share = 1 - self.settings.momentum
            within += share * (max(_TINY, 1 - s) - within)
            between += share * (max(_TINY, 1 - d) - between)
            self.within.fill_(within)
            self.between.fill_(between)
        return float(max(within / between + self.settings.margin, self.settings.floor))


class RampedValue(StepCounter):
    """A gamma or weight that follows a `Ramp`; its state is the training step, which it counts in training mode."""

    def __init__(self, settings: Ramp) -> None:
        super().__init__()
        self.settings = settings

    def forward(self, *like: Tensor) -> Tensor:
        """Return the value at this step, in the dtype of a tensor such as s."""
        step = (self.tick() - self.settings.delay).clamp(min=0)
        way = torch.as_tensor(ramp(step, self.settings.steps), dtype=like[0].dtype)
        if self.settings.shape == "cosine":
            way = (1 - torch.cos(math.pi * way)) / 2
        return self.settings.start + (self.settings.end - self.settings.start) * way


GammaRule = ConstantGamma | NeededGamma | RampedValue


def gamma_rule(gamma: Gamma) -> GammaRule:
    """Return the module that gives gamma for each batch; raise `OptionError` if there is none."""
    if isinstance(gamma, Ramp):
        return RampedValue(gamma)
    if isinstance(gamma, AutoGamma):
        return NeededGamma(gamma)
    if isinstance(gamma, str):
        if gamma != "auto":
            raise OptionError(did_you_mean("gamma", gamma, ("auto",)))
        return NeededGamma(AutoGamma())
    if not is_number(gamma) or not 0 <= gamma < math.inf:
        raise OptionError(
            f"gamma is {gamma!r} but must be a number of at least 0, such as 0.5 (the paper's choice), 'auto', or an "
            "opl.Ramp."
        )
    return ConstantGamma(float(gamma))
