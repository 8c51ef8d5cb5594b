"""DropBlock: dropout of whole squares of a map, at exactly the rate asked for."""

import torch
from torch import Tensor
from torch.nn import functional as F

from ..._support.arguments import check_steps
from ..._support.step_counter import StepCounter, ramp
from ...errors import OptionError


def drop_block(x: Tensor, rate: float | Tensor, block: int) -> Tensor:
    """Blank squares of every sample's every channel, and scale what is kept by (all cells) / (kept cells).

    DropBlock: A regularization method for convolutional networks (Ghiasi et al., NeurIPS 2018). The squares lie whole
    inside the map and may overlap. Where all is blanked, all is zero.

    Args:
        x: (B, C, H, W).
        rate: the share of cells that is blanked on average, from 0 to 1.
        block: the side of a square; on a smaller map the square is cut to the map.

    Example:
        >>> drop_block(torch.ones(1, 1, 2, 2), 1.0, 2)
        tensor([[[[0., 0.],
                  [0., 0.]]]])
    """
    blanked = square_mask(x, rate, block)
    lost = blanked.sum()
    kept = x.numel() - lost
    return torch.where(blanked, 0, x * (1 + lost / kept.clamp(min=1)))  # all / kept, and exactly 1 where none is lost


def square_mask(x: Tensor, rate: float | Tensor, block: int) -> Tensor:
    """Which cells of (B, C, H, W) are blanked: each place where a whole square fits starts one by chance."""
    height, width = x.shape[2:]
    tall, wide = min(block, height), min(block, width)
    ways = coverage(height, tall, x.device)[:, None] * coverage(width, wide, x.device)
    starts = x.detach()[:, :, : height - tall + 1, : width - wide + 1]
    seeds = torch.rand_like(starts, dtype=torch.float32) < seed_rate(rate, ways)  # laid out in memory as x is
    rows = F.pad(seeds, (wide - 1, wide - 1, tall - 1, tall - 1))
    columns = _any([rows[:, :, shift : shift + height] for shift in range(tall)])
    return _any([columns[..., shift : shift + width] for shift in range(wide)])


def coverage(side: int, block: int, device: torch.device) -> Tensor:
    """(side,) in how many ways a stretch of `block` cells inside the side can lie on each of its cells."""
    cells = torch.arange(side, device=device, dtype=torch.float32)
    return torch.minimum(cells, side - 1 - cells).clamp(max=min(block - 1, side - block)) + 1


def seed_rate(rate: float | Tensor, ways: Tensor) -> Tensor:
    """The chance that a place starts a square, such that on average the share `rate` of the cells is blanked.

    A cell under k possible squares stays with chance (1 - g)^k, so g solves `mean((1 - g)^k) = 1 - rate`. The published
    `g = rate / mean(k)` forgets that squares overlap, and blanks less than it says. With `g = 1 - exp(-u)` the log of
    both sides is convex in u, and nearly straight: Newton's steps go up to the answer, the first to about the published
    one, and five are as exact as fp32. It is all tensors, so that a rate which depends on a device's step stays there.

    Args:
        rate: the share of cells to blank.
        ways: k of each cell, one at least somewhere (in a corner).

    Example:
        >>> seed_rate(0.1, torch.ones(5, 5))  # one square, that covers all: no overlap
        tensor(0.1000)
    """
    stays = torch.log1p(-rate * ways.new_ones(())).clamp(min=-50)  # finite at rate 1, and nothing stays there
    u = ways.new_zeros(())
    for _ in range(5):
        left = torch.exp(-u * ways)
        u = u + (left.mean().log() - stays) * left.mean() / (left * ways).mean()
    return -torch.expm1(-u)


def _any(masks: list[Tensor]) -> Tensor:
    """Where any of the masks is set."""
    total = masks[0]
    for mask in masks[1:]:
        total = total | mask
    return total


class DropBlock(StepCounter):
    """Dropout of whole squares in training, at a rate that grows from 0 over the first steps: see `drop_block`.

    The module counts its training calls in its state; `layer.set_step(n)` sets the count. At test time it does nothing
    and counts nothing. Chance comes from PyTorch's global generator, as in `nn.Dropout`.

    Args:
        rate: the share of cells that is blanked on average, from 0 to 1.
        block: the side of a square; on a smaller map the square is cut to the map.
        ramp: steps until the rate is all there; 0 has it at once.

    Example:
        >>> layer = DropBlock(0.1, block=5, ramp=40_000)
        >>> maps = layer(torch.randn(64, 320, 10, 10))
    """

    def __init__(self, rate: float, block: int, ramp: int = 0) -> None:
        super().__init__()
        if not 0 <= rate <= 1:
            raise OptionError(f"rate is {rate}: give the share of cells to blank, from 0 to 1.")
        if not 1 <= block < float("inf") or block != int(block):
            raise OptionError(f"block is {block}: give the side of the squares to blank, a whole number from 1 up.")
        self.rate, self.block, self.ramp = rate, int(block), check_steps("ramp", ramp)

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, H, W) to the same shape."""
        if not self.training:
            return x
        step = self.tick()
        return drop_block(x, self.rate * ramp(step, self.ramp), self.block) if self.rate else x

    def extra_repr(self) -> str:
        """What `print` says of it."""
        return f"rate={self.rate}, block={self.block}, ramp={self.ramp}"
