"""A weight of OPL relative to another loss: the norms of their gradients at the features."""

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F

from .._kernels.normalize import accumulation_dtype, full_precision
from ..functional import IGNORE_INDEX
from ..schedules import MOMENTUM

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


def entropy_gradient(logits: Tensor, labels: Tensor, weight: Tensor, label_smoothing: float = 0.0) -> Tensor:
    """Return the (B, D) gradient of the sum of softmax cross-entropies at the input of a linear classifier.

    In closed form, `(p - y) W`, so that it is there for a compiled model too.

    Args:
        logits: (B, C).
        labels: (B,) class ids; rows with -100 have gradient 0.
        weight: (C, D) of the classifier.
        label_smoothing: as in `torch.nn.functional.cross_entropy`.
    """
    with torch.no_grad(), full_precision(logits):
        p, kept = logits.detach().float().softmax(1), labels != IGNORE_INDEX
        y = F.one_hot(labels.where(kept, 0), logits.shape[1]).to(p.dtype)
        y = y * (1 - label_smoothing) + label_smoothing / logits.shape[1]
        return ((p - y) * kept[:, None]) @ weight.detach().float()


def _square(parts: tuple[Tensor, ...]) -> Tensor:
    """Return the squared norm of all parts together."""
    return torch.stack([part.detach().to(accumulation_dtype(part)).square().sum() for part in parts]).sum()


class GradientBalance(nn.Module):
    """Scales the gradient of OPL to the norm of another one at the features; the value of the loss stays.

    Both norms are running means, the module's state. With `global_batch` they are those of the combined batch of all
    processes, and equal on all of them.
    """

    def __init__(self, global_batch: bool = False) -> None:
        super().__init__()
        self.global_batch = global_batch
        self.norms = RunningMean((1.0, 1.0))

    def forward(self, loss: Tensor, inputs: tuple[Tensor, ...], slopes: tuple[Tensor, ...]) -> Tensor:
        """Return the loss, with a gradient that is as large as `slopes` on average.

        Args:
            loss: OPL.
            inputs: the features, of which the loss is a function.
            slopes: the gradients of the other loss at the features.
        """
        found = torch.autograd.grad(loss, inputs, retain_graph=True, allow_unused=True)
        own = tuple(part for part in found if part is not None)
        squares = torch.stack([_square(slopes), _square(own)])
        if self.global_batch:
            dist.all_reduce(squares)
        theirs, ours = self.norms(*squares.sqrt().to(loss.dtype))
        ratio: Tensor = theirs / ours.clamp(min=torch.finfo(loss.dtype).eps)
        return loss.detach() + ratio * (loss - loss.detach())
