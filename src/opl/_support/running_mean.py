"""Running means of a few numbers, as state that a checkpoint includes."""

import torch
from torch import Tensor, nn

MOMENTUM = 0.99  # about the last hundred batches
_TINY = 1e-30  # what the initial values weigh, beside 1 - momentum for a number


class RunningMean(nn.Module):
    """Exponential means of some numbers, without the bias of the first calls.

    It changes in training mode alone. An exact 0 is a mean over nothing, such as s of a batch without a pair, and does
    not count. Before the first number, a mean is its `initial` value.
    """

    sums: Tensor
    weights: Tensor

    def __init__(self, initial: tuple[float, ...], momentum: float = MOMENTUM) -> None:
        super().__init__()
        self.momentum = momentum
        self.register_buffer("sums", _TINY * torch.tensor(initial))
        self.register_buffer("weights", torch.full((len(initial),), _TINY))

    @torch.no_grad()
    def forward(self, *values: Tensor) -> Tensor:
        """Add numbers, in training mode, and return the (N,) means."""
        latest = torch.stack(values)
        sums, weights = self.sums.to(latest), self.weights.to(latest)
        if self.training:
            share = latest.ne(0).to(latest.dtype) * (1 - self.momentum)
            sums, weights = sums.lerp(latest, share), torch.addcmul(weights, 1 - weights, share)
            # not in place, because a compiled backward pass would read the new values
            self.sums, self.weights = sums.to(self.sums.dtype), weights.to(self.weights.dtype)
        return sums / weights
