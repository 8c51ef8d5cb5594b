"""Muon for convolution filters together with SGD for everything else, as one optimizer.

`torch.optim.Muon` takes matrices alone and keeps the norms of weights; here the filters of a convolution are one
matrix, and their norm is reset at every step, which takes the place of weight decay.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

COEFFICIENTS = (3.4445, -4.7750, 2.0315)  # of the odd polynomial that moves singular values towards 1


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
