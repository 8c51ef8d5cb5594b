"""Optimizer and schedule settings as dataclasses; the learning rate is a function of the step alone."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from torch import nn

from ._support.muon import MuonSGD
from ._support.ranges import Count, CountOrZero, Fraction, FractionBelowOne, NotNegative, Positive
from .errors import OptionError

Parameters = Iterable[nn.Parameter] | list[dict[str, Any]]


@dataclass(frozen=True)
class SGD:
    """Stochastic gradient descent with momentum."""

    lr: Positive = 0.1
    momentum: FractionBelowOne = 0.9
    weight_decay: NotNegative = 5e-4
    nesterov: bool = False

    def __post_init__(self) -> None:
        if self.nesterov and not self.momentum:
            raise OptionError("nesterov needs a momentum above 0: give one, for instance 0.9, or leave nesterov out.")

    def build(self, parameters: Parameters) -> torch.optim.Optimizer:
        """Build the optimizer for these parameters."""
        return torch.optim.SGD(
            parameters, self.lr, momentum=self.momentum, weight_decay=self.weight_decay, nesterov=self.nesterov
        )


@dataclass(frozen=True)
class AdamW:
    """Adam with decoupled weight decay."""

    lr: Positive = 1e-3
    beta1: FractionBelowOne = 0.9
    beta2: FractionBelowOne = 0.999
    weight_decay: NotNegative = 0.0

    def build(self, parameters: Parameters) -> torch.optim.Optimizer:
        """Build the optimizer for these parameters."""
        return torch.optim.AdamW(parameters, self.lr, betas=(self.beta1, self.beta2), weight_decay=self.weight_decay)


@dataclass(frozen=True)
class Muon:
    """Muon for the filters of convolutions, SGD with Nesterov momentum for everything else.

    Muon orthogonalizes the update of each layer and resets the norm of its filters to the root of their number, in
    place of weight decay. Biases and batch norm have no weight decay either.
    """

    lr: Positive = 1.38
    """Learning rate of SGD."""
    momentum: FractionBelowOne = 0.9
    weight_decay: NotNegative = 5e-4
    filter_lr: Positive = 0.18
    """Learning rate of Muon."""
    filter_momentum: FractionBelowOne = 0.6
    steps: Count = 3
    """Newton-Schulz iterations."""

    def build(self, parameters: Parameters) -> torch.optim.Optimizer:
        """Build the optimizer for these parameters."""
        given = list(parameters)
        groups = [group if isinstance(group, dict) else {"params": [group]} for group in given]
        return MuonSGD(
            groups,
            lr=self.lr,
            momentum=self.momentum,
            weight_decay=self.weight_decay,
            filter_lr=self.filter_lr,
            filter_momentum=self.filter_momentum,
            steps=self.steps,
        )


@dataclass(frozen=True)
class Steps:
    """Multiply the learning rate by `factor` at the start of each epoch in `milestones` (counted from 0)."""

    milestones: tuple[CountOrZero, ...] = (60, 120, 160)
    factor: NotNegative = 0.2
    warmup: NotNegative = 0.0
    """Epochs of linear warmup from 0, updated at every step."""

    def __call__(self, step: int, steps_per_epoch: int, epochs: int) -> float:
        """Return the factor that multiplies the base learning rate at this step."""
        passed = sum(step // steps_per_epoch >= milestone for milestone in self.milestones)
        return float(self.factor**passed * warmup_factor(step, self.warmup * steps_per_epoch))


@dataclass(frozen=True)
class Staircase:
    """The base learning rate for `hold` epochs, then `drop` times it, multiplied by `factor` every `every` epochs."""

    hold: CountOrZero = 10
    drop: NotNegative = 0.1
    every: Count = 10
    factor: NotNegative = 1 / 1.5

    def __call__(self, step: int, steps_per_epoch: int, epochs: int) -> float:
        """Return the factor that multiplies the base learning rate at this step."""
        late = step // steps_per_epoch - self.hold
        return 1.0 if late < 0 else float(self.drop * self.factor ** (late // self.every))


@dataclass(frozen=True)
class Cosine:
    """Half a cosine from the base learning rate down to `floor` times it."""

    floor: NotNegative = 0.0
    warmup: NotNegative = 0.0
    cycles: Count = 1
    """How often the cosine is repeated, each time from the base learning rate (warm restarts)."""

    def __call__(self, step: int, steps_per_epoch: int, epochs: int) -> float:
        """Return the factor that multiplies the base learning rate at this step."""
        start = self.warmup * steps_per_epoch
        done = max(0.0, step - start) / max(1.0, epochs * steps_per_epoch - start)
        done = done * self.cycles % 1.0 if self.cycles > 1 and done < 1 else done
        height = self.floor + (1 - self.floor) * (1 + math.cos(math.pi * min(1.0, done))) / 2
        return height * warmup_factor(step, start)


@dataclass(frozen=True)
class OneCycle:
    """Linear increase from `start` to 1 times the base learning rate, then a cosine down to `end` times it.

    `peak` is the fraction of training at which the maximum is reached.
    """

    peak: Fraction = 0.3
    start: NotNegative = 0.04
    end: NotNegative = 1e-4

    def __call__(self, step: int, steps_per_epoch: int, epochs: int) -> float:
        """Return the factor that multiplies the base learning rate at this step."""
        done = step / max(1, epochs * steps_per_epoch - 1)
        if done < self.peak:
            return self.start + (1 - self.start) * done / self.peak
        down = (done - self.peak) / max(1e-12, 1 - self.peak)
        return self.end + (1 - self.end) * (1 + math.cos(math.pi * min(1.0, down))) / 2


@dataclass(frozen=True)
class Triangle:
    """Linear increase from 0 to the base learning rate during the fraction `peak` of training, then linear to 0."""

    peak: Fraction = 0.25

    def __call__(self, step: int, steps_per_epoch: int, epochs: int) -> float:
        """Return the factor that multiplies the base learning rate at this step."""
        steps = epochs * steps_per_epoch
        top = self.peak * steps
        return (step + 1) / (top + 1) if step < top else (steps - step) / max(1.0, steps - top)


@runtime_checkable
class HasParamOptions(Protocol):
    """A module with parameters that need their own optimizer options.

    `param_options` maps the name of such a parameter to its options: `lr_mult`, its learning-rate multiplier, or an
    option of the optimizer, such as `weight_decay`.
    """

    param_options: Mapping[str, Mapping[str, float]]


def param_groups(*modules: nn.Module, lr: float) -> list[dict[str, Any]]:
    """Return the optimizer's parameter groups for some modules: one group per parameter with its own options.

    For instance, the class means of LGM have twice the learning rate, and the centers of Perpetual OPL no weight decay:
    see `HasParamOptions`. Each group also stores its `lr_mult`, for schedules that set the learning rate.

    Args:
        modules: the model, and every loss that has parameters.
        lr: the base learning rate.

    Example:
        >>> from opl.heads import LGMHead
        >>> [group["lr"] for group in param_groups(nn.Linear(2, 4), LGMHead(4, num_classes=3), lr=0.1)]
        [0.1, 0.2]
    """
    options = {
        id(part.get_parameter(name)): option
        for module in modules
        for part in module.modules()
        if isinstance(part, HasParamOptions)
        for name, option in part.param_options.items()
    }
    parameters = {id(parameter): parameter for module in modules for parameter in module.parameters()}
    rest = [parameter for key, parameter in parameters.items() if key not in options]
    groups: list[dict[str, Any]] = [{"params": rest, "lr": lr, "lr_mult": 1.0}] if rest else []
    for key, option in options.items():
        lr_mult = option.get("lr_mult", 1.0)
        groups.append({**option, "params": [parameters[key]], "lr": lr * lr_mult, "lr_mult": lr_mult})
    return groups


def warmup_factor(step: int, steps: float) -> float:
    """Return the linear warmup factor: 0 at step 0, 1 from step `steps` on."""
    return 1.0 if step >= steps else step / steps


Optimizer = SGD | AdamW | Muon
Schedule = Steps | Staircase | Cosine | OneCycle | Triangle
