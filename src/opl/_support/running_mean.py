"""Running means of a few numbers, as state that a checkpoint includes."""

import torch
from torch import Tensor, nn

MOMENTUM = 0.99  # about the last hundred batches


class RunningMean(nn.Module):
    """Exponential means of some numbers, without the bias of the first calls.

    It changes in training mode alone. An exact 0 is a mean over nothing, such as s of a batch without a pair, and does
    not count. Before the first number, a mean is its `initial` value.
    """

    sums: Tensor
    weights: Tensor

    def __init__(self, initial: tuple[float, ...], momentum: float = MOMENTUM) -> None:
        super().__init__()
        self.initial, self.momentum = initial, momentum
        self.register_buffer("sums", torch.zeros(len(initial)))
        self.register_buffer("weights", torch.zeros(len(initial)))

    @torch.no_grad()
    def forward(self, *values: Tensor) -> Tensor:
        """Add numbers, in training mode, and return the (N,) means."""
        latest = torch.stack([value.detach() for value in values])
        sums, weights = self.sums.to(latest.dtype), self.weights.to(latest.dtype)
        if self.training:
            there = latest != 0
            sums = torch.where(there, self.momentum * sums + (1 - self.momentum) * latest, sums)
            weights = torch.where(there, self.momentum * weights + (1 - self.momentum), weights)
            # not in place, because a compiled backward pass would read the new values
            self.sums, self.weights = sums.to(self.sums.dtype), weights.to(self.weights.dtype)
        before = torch.tensor(self.initial, dtype=latest.dtype, device=latest.device)
        return torch.where(weights > 0, sums / weights.where(weights > 0, 1), before)
