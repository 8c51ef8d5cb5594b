"""Gates: a factor for every filter, by which a search removes filters and learns how important they are."""

import torch
from torch import Tensor, nn


class Gate(nn.Module):
    """A factor of 1 or 0 for every channel; no parameter, so that an optimizer does not change it.

    While `measuring`, the backward pass adds `(gate * dL/dgate) ** 2` of the batch to the importance of every filter.
    Both are buffers, so a checkpoint has them.
    """

    open: Tensor
    importance: Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        self.register_buffer("open", torch.ones(width))
        self.register_buffer("importance", torch.zeros(width))
        self.measuring = False

    def forward(self, x: Tensor) -> Tensor:
        """Multiply the channels of (B, C, H, W)."""
        gate = self.open
        if self.measuring and self.training and torch.is_grad_enabled():
            gate = gate.clone().requires_grad_()
            gate.register_hook(self._add)  # type: ignore[no-untyped-call]
        return x * gate.to(x.dtype)[:, None, None]  # else the gates would turn half precision into single

    @property
    def width(self) -> int:
        """The number of filters that are left."""
        return int(self.open.sum())

    def _add(self, gradient: Tensor) -> None:
        self.importance += (self.open * gradient).square()


def add_gates(model: nn.Module) -> None:
    """Put a gate behind every batch norm, in place."""
    for part in list(model.modules()):
        for name, child in list(part.named_children()):
            if isinstance(child, nn.BatchNorm2d):
                part.set_submodule(name, nn.Sequential(child, Gate(child.num_features)))


def gates_of(model: nn.Module) -> list[Gate]:
    """The gates of a model, in the order of its layers."""
    return [part for part in model.modules() if isinstance(part, Gate)]
