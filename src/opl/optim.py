"""Optimizers and schedules as typed values; the learning rate is a function of the step and nothing else."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from torch import nn

Parameters = Iterable[nn.Parameter] | list[dict[str, Any]]


@dataclass(frozen=True)
class SGD:
    """Stochastic gradient descent with momentum."""

    lr: float = 0.1
    momentum: float = 0.9
    weight_decay: float = 5e-4
    nesterov: bool = False

    def build(self, parameters: Parameters) -> torch.optim.Optimizer:
        """The optimizer of these parameters."""
        return torch.optim.SGD(
            parameters, self.lr, momentum=self.momentum, weight_decay=self.weight_decay, nesterov=self.nesterov
        )


@dataclass(frozen=True)
class AdamW:
    """Adam, with decoupled weight decay."""

    lr: float = 1e-3
    beta1: float = 0.9
    beta2: float = 0.999
    weight_decay: float = 0.0

    def build(self, parameters: Parameters) -> torch.optim.Optimizer:
        """The optimizer of these parameters."""
        return torch.optim.AdamW(parameters, self.lr, betas=(self.beta1, self.beta2), weight_decay=self.weight_decay)


@dataclass(frozen=True)
class Steps:
    """The rate is multiplied by `factor` at the start of each epoch in `milestones` (counted from 0)."""

    milestones: tuple[int, ...] = (60, 120, 160)
    factor: float = 0.2
    warmup: float = 0.0
    """Epochs in which the rate grows from 0, step by step."""

    def __call__(self, step: int, steps_per_epoch: int, epochs: int) -> float:
        """What the base rate is multiplied with at this step."""
        passed = sum(step // steps_per_epoch >= milestone for milestone in self.milestones)
        return float(self.factor**passed * warmup_factor(step, self.warmup * steps_per_epoch))


@dataclass(frozen=True)
class Cosine:
    """Half a cosine from the base rate down to `floor` times it."""

    floor: float = 0.0
    warmup: float = 0.0

    def __call__(self, step: int, steps_per_epoch: int, epochs: int) -> float:
        """What the base rate is multiplied with at this step."""
        start = self.warmup * steps_per_epoch
        done = max(0.0, step - start) / max(1.0, epochs * steps_per_epoch - start)
        height = self.floor + (1 - self.floor) * (1 + math.cos(math.pi * min(1.0, done))) / 2
        return height * warmup_factor(step, start)


@dataclass(frozen=True)
class OneCycle:
    """Straight up from `start` times the base rate to all of it at `peak` of the way, then a cosine down to `end`."""

    peak: float = 0.3
    start: float = 0.04
    end: float = 1e-4

    def __call__(self, step: int, steps_per_epoch: int, epochs: int) -> float:
        """What the base rate is multiplied with at this step."""
        done = step / max(1, epochs * steps_per_epoch - 1)
        if done < self.peak:
            return self.start + (1 - self.start) * done / self.peak
        down = (done - self.peak) / max(1e-12, 1 - self.peak)
        return self.end + (1 - self.end) * (1 + math.cos(math.pi * min(1.0, down))) / 2


@runtime_checkable
class HasParamOptions(Protocol):
    """A module some of whose parameters are to be trained otherwise than the rest.

    `param_options` names them, each with `lr_mult`, by which its rate is multiplied, or an option of the optimizer,
    such as `weight_decay`.
    """

    param_options: Mapping[str, Mapping[str, float]]


def param_groups(*modules: nn.Module, lr: float) -> list[dict[str, Any]]:
    """The parameters of some modules for an optimizer, those with options of their own in groups of their own.

    The class means of LGM learn twice as fast, for instance, and the centers of Perpetual OPL do not decay: see
    `HasParamOptions`. Each group has its `lr_mult` too, for schedules that set the rate.

    Args:
        modules: the model, and every loss that has parameters.
        lr: the rate of all others.

    Example:
        >>> from opl.heads import LGMHead
        >>> [group["lr"] for group in param_groups(nn.Linear(2, 4), LGMHead(4, 3), lr=0.1)]
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
    """From 0 at step 0 to 1 after `steps` steps, in a straight line."""
    return 1.0 if step >= steps else step / steps


Optimizer = SGD | AdamW
Schedule = Steps | Cosine | OneCycle
