"""Optimizer and schedule settings as dataclasses; the learning rate is a function of the step alone."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from ._ranges import Count, CountOrZero, Fraction, FractionBelowOne, NotNegative, Positive
from .errors import OptionError

COEFFICIENTS = (3.4445, -4.7750, 2.0315)  # of the odd polynomial that moves singular values towards 1

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
            raise OptionError("nesterov needs a momentum above 0: set it to 0.9, for instance, or leave nesterov out.")

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


def orthogonalize(matrix: Tensor, steps: int) -> Tensor:
    """Return a matrix with about the same singular vectors and singular values near 1, by Newton-Schulz iterations.

    Each step applies `a x + b x^3 + c x^5` to the singular values, after the matrix was scaled to norm 1.
    """
    a, b, c = COEFFICIENTS
    x: Tensor = matrix / (torch.linalg.vector_norm(matrix) + 1e-7)
    x = x.T if len(matrix) > matrix.shape[1] else x
    for _ in range(steps):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.T if len(matrix) > matrix.shape[1] else x


class MuonSGD(torch.optim.Optimizer):
    """Muon on the filters of convolutions (4-D weights), SGD with Nesterov momentum on all other parameters.

    `torch.optim.Muon` takes only matrices and keeps the norms of weights; here the filters of a convolution are one
    matrix, and their norm is reset at every step, which takes the place of weight decay.

    Args:
        groups: parameter groups, each with its `lr_mult`.
        lr: learning rate of SGD.
        momentum: of SGD.
        weight_decay: of matrices; vectors (biases, batch norm) have none.
        filter_lr: learning rate of Muon.
        filter_momentum: of Muon.
        steps: Newton-Schulz iterations.
    """

    def __init__(
        self,
        groups: list[dict[str, Any]],
        *,
        lr: float,
        momentum: float,
        weight_decay: float,
        filter_lr: float,
        filter_momentum: float,
        steps: int,
    ) -> None:
        made: list[dict[str, Any]] = []
        kinds: tuple[tuple[Callable[[Tensor], bool], dict[str, Any], float], ...] = (
            (lambda p: p.ndim == 4, {"filters": True, "momentum": filter_momentum, "weight_decay": 0.0}, filter_lr),
            (lambda p: 2 <= p.ndim < 4, {"filters": False, "momentum": momentum, "weight_decay": weight_decay}, lr),
            (lambda p: p.ndim < 2, {"filters": False, "momentum": momentum, "weight_decay": 0.0}, lr),
        )
        for group in groups:
            for belongs, settings, rate in kinds:
                params = [parameter for parameter in group["params"] if belongs(parameter)]
                mult = group.get("lr_mult", 1.0) * rate / lr
                if params:
                    made.append({**settings, **group, "params": params, "lr": lr * mult, "lr_mult": mult})
        self.newton_steps = steps
        super().__init__(made, {})

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        """Take one step."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._move(parameter, parameter.grad, group)
        return loss

    def _move(self, parameter: Tensor, gradient: Tensor, group: dict[str, Any]) -> None:
        momentum = group["momentum"]
        if group["weight_decay"]:
            gradient = gradient.add(parameter, alpha=group["weight_decay"])
        state = self.state[parameter]
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = torch.zeros_like(parameter)
        buffer = state["momentum_buffer"].mul_(momentum).add_(gradient)
        direction = gradient.add(buffer, alpha=momentum)  # Nesterov
        if group["filters"]:
            parameter.mul_(len(parameter) ** 0.5 / torch.linalg.vector_norm(parameter).clamp(min=1e-12))
            direction = orthogonalize(direction.flatten(1), self.newton_steps).reshape(direction.shape)
        parameter.add_(direction, alpha=-group["lr"])


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


def param_groups(
    *modules: nn.Module, lr: float, lr_mults: Mapping[nn.Module, float] | None = None
) -> list[dict[str, Any]]:
    """Return the optimizer's parameter groups for some modules: one group per parameter with its own options.

    For instance, the class means of LGM have twice the learning rate, and the centers of Perpetual OPL no weight decay:
    see `HasParamOptions`. Each group also stores its `lr_mult`, for schedules that set the learning rate.

    Args:
        modules: the model, and every loss that has parameters.
        lr: the base learning rate.
        lr_mults: learning-rate multipliers of whole parts of the modules, such as `{model.fc: 10.0}` in fine-tuning.

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
    mults = {id(parameter): mult for part, mult in (lr_mults or {}).items() for parameter in part.parameters()}
    groups: list[dict[str, Any]] = []
    for lr_mult in dict.fromkeys([1.0, *mults.values()]):
        rest = [value for key, value in parameters.items() if key not in options and mults.get(key, 1.0) == lr_mult]
        groups += [{"params": rest, "lr": lr * lr_mult, "lr_mult": lr_mult}] if rest else []
    for key, option in options.items():
        lr_mult = option.get("lr_mult", 1.0) * mults.get(key, 1.0)
        groups.append({**option, "params": [parameters[key]], "lr": lr * lr_mult, "lr_mult": lr_mult})
    return groups


def warmup_factor(step: int, steps: float) -> float:
    """Return the linear warmup factor: 0 at step 0, 1 from step `steps` on."""
    return 1.0 if step >= steps else step / steps


Optimizer = SGD | AdamW | Muon
Schedule = Steps | Staircase | Cosine | OneCycle | Triangle
