"""Settings that change during training: a function of the step, or a gamma as large as the batches need."""

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from ._kernels.validate import is_number
from ._ranges import Count, CountOrZero, FractionBelowOne, NotNegative, check_settings
from .errors import OptionError, did_you_mean
from .functional import GAMMA, gamma_needed

Shape = Literal["linear", "cosine"]
MOMENTUM = 0.99  # about the last hundred batches


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
        start: the initial value, also during the `delay`.
        end: the final value.
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
    """A gamma that is large enough to lower d, plus a margin: `max(floor, gamma_needed + margin)`.

    `opl.functional.gamma_needed` is computed from running means of s, d, the number of classes and the samples per
    class, and multiplied by `same_weight`. Batches to which that rule does not apply are skipped: batches that lack
    pairs of one kind, and batches with many negative cosines unless `form` is `"mean"` or `"abs_mean"`. If it never
    applies, as with `form="squared"`, gamma is the floor. `gamma="auto"` uses these defaults.

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
    """A constant gamma, without state."""

    value: float

    def __call__(self, *like: Tensor) -> float:
        """Return gamma."""
        return self.value


class NeededGamma(nn.Module):
    """Gamma by the rule of `AutoGamma`; its state is a running sum of 1, s, d, C and n."""

    sums: Tensor

    def __init__(self, settings: AutoGamma) -> None:
        super().__init__()
        self.settings = settings
        self.register_buffer("sums", torch.zeros(5))

    @torch.no_grad()
    def forward(self, inputs: Tensor, same_weight: float = 1.0) -> Tensor:
        """Return gamma for a batch.

        Args:
            inputs: s, d, C and n of the batch, see `opl.functional.gamma_needed`; NaN where its rule does not apply.
            same_weight: the weight of `1 - s`, relative to which gamma is needed.
        """
        sums = self.sums.to(inputs)
        if self.training:
            refuse_functional_transforms()
            new = torch.cat([inputs.new_ones(1), inputs])
            sums = torch.where(inputs.isfinite().all(), sums.lerp(new, 1 - self.settings.momentum), sums)
            self.sums = sums.to(self.sums.dtype)  # not in place: a compiled backward pass would read the new values
        needed = gamma_needed(*(sums[1:] / sums[0])).nan_to_num(0)
        gamma: Tensor = (same_weight * needed + self.settings.margin).clamp(min=self.settings.floor)
        return gamma.where(sums[0] > 0, self.settings.floor)


def refuse_functional_transforms() -> None:
    """Raise `OptionError` inside a `torch.func` transform, which must not change the state of a rule."""
    if torch._C._are_functorch_transforms_active():
        raise OptionError(
            "torch.func transforms cannot update a gamma or weight that changes during training: call eval() on the "
            "loss, or use a number."
        )


class RampedValue(StepCounter):
    """A gamma or weight that follows a `Ramp`; its state is the training step, which it counts in training mode."""

    def __init__(self, settings: Ramp) -> None:
        super().__init__()
        self.settings = settings

    def forward(self, *like: Tensor) -> Tensor:
        """Return the value at this step, in the dtype of a tensor such as s."""
        if self.training:
            refuse_functional_transforms()
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
