"""ResNet-12, the network of the few-shot experiments (table 6): four wide blocks with DropBlock."""

from dataclasses import dataclass
from functools import reduce

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..._kernels.validate import check_steps
from ..._ranges import CountOrZero, FractionBelowOne, Pixels, Width, check_settings
from ...errors import OptionError
from ...schedules import StepCounter, ramp
from ..types import Model
from .network import Network, draw_convolutions, he_normal_fan_out, with_pooling
from .residual import convolution


@dataclass(frozen=True)
class ResNet12(Model):
    """Four residual blocks of three 3x3 convolutions, each halving the map; the last width is the number of features.

    LeakyReLU has slope 0.1, so features can be slightly negative. Images must be at least 16 pixels on each side.

    Args:
        widths: widths of the four blocks.
        drop: dropout rate after each block: single cells after the first two blocks, squares after the last two.
        block: side length of the squares: 5 for images of 84 pixels, 2 for 32.
        ramp: steps until the squares reach the full rate; 0 uses it from the start.
    """

    widths: tuple[Width, Width, Width, Width] = (64, 160, 320, 640)
    drop: FractionBelowOne = 0.1
    block: Pixels = 5
    ramp: CountOrZero = 40_000

    def build(self, channels: int, num_classes: int) -> Network:
        """Build the module with newly initialized weights: He-normal convolutions."""
        check_settings(self, "model.")
        drops: list[nn.Module] = [nn.Dropout(self.drop) for _ in range(2)]
        drops += [DropBlock(self.drop, self.block, self.ramp) for _ in range(2)]
        before = (channels, *self.widths)
        layers: dict[str, nn.Module] = {
            f"layer{number + 1}": nn.Sequential(HalvingBlock(before[number], self.widths[number], drops[number]))
            for number in range(4)
        }
        model = Network(with_pooling(layers), self.widths[-1], num_classes)
        draw_convolutions(model, he_normal_fan_out)
        return model


class HalvingBlock(nn.Module):
    """Three 3x3 convolutions with a 1x1 shortcut, a max-pool to half the size, and the given dropout module."""

    def __init__(self, before: int, width: int, drop: nn.Module) -> None:
        super().__init__()
        self.conv1, self.bn1 = convolution(before, width, 3), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = convolution(width, width, 3), nn.BatchNorm2d(width)
        self.conv3, self.bn3 = convolution(width, width, 3), nn.BatchNorm2d(width)
        self.downsample = nn.Sequential(convolution(before, width, 1), nn.BatchNorm2d(width))
        self.relu, self.maxpool, self.drop = nn.LeakyReLU(0.1), nn.MaxPool2d(2), drop

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, before, H, W) to (B, width, H // 2, W // 2)."""
        if min(x.shape[2:]) < 2:
            raise OptionError(
                f"a map of {x.shape[2]}x{x.shape[3]} cannot be halved, and ResNet12 halves images four times: use "
                "images of at least 16x16 pixels."
            )
        residual = self.relu(self.bn1(self.conv1(x)))
        residual = self.relu(self.bn2(self.conv2(residual)))
        total = self.bn3(self.conv3(residual)) + self.downsample(x)
        halved: Tensor = self.relu(self.maxpool(total))  # published in reverse order: same result, 4 times the work
        dropped: Tensor = self.drop(halved)
        return dropped


def drop_block(x: Tensor, rate: float | Tensor, block: int) -> Tensor:
    """Set random squares of every channel to zero, and scale the kept cells by (all cells) / (kept cells).

    DropBlock: A regularization method for convolutional networks (Ghiasi et al., NeurIPS 2018). The squares lie
    entirely inside the map and may overlap. If all cells are dropped, the output is zero.

    Args:
        x: (B, C, H, W).
        rate: the expected fraction of cells to drop, from 0 to 1.
        block: the side length of a square; on a smaller map it is cut to the size of the map.

    Example:
        >>> drop_block(torch.ones(1, 1, 2, 2), 1.0, 2)
        tensor([[[[0., 0.],
                  [0., 0.]]]])
    """
    dropped = square_mask(x, rate, block)
    lost = dropped.sum()
    kept = x.numel() - lost
    return torch.where(dropped, 0, x * (1 + lost / kept.clamp(min=1)))  # all / kept, and exactly 1 if none is dropped


def square_mask(x: Tensor, rate: float | Tensor, block: int) -> Tensor:
    """Return the mask of dropped cells: a square starts at random positions where it fits."""
    height, width = x.shape[2:]
    tall, wide = min(block, height), min(block, width)
    ways = coverage(height, tall, x.device)[:, None] * coverage(width, wide, x.device)
    starts = x.detach()[:, :, : height - tall + 1, : width - wide + 1]
    seeds = torch.rand_like(starts, dtype=torch.float32) < seed_rate(rate, ways)  # with the memory format of x
    rows = F.pad(seeds, (wide - 1, wide - 1, tall - 1, tall - 1))
    columns = reduce(torch.logical_or, (rows[:, :, shift : shift + height] for shift in range(tall)))
    return reduce(torch.logical_or, (columns[..., shift : shift + width] for shift in range(wide)))


def coverage(side: int, block: int, device: torch.device) -> Tensor:
    """Return (side,) counts: how many segments of `block` cells inside the side cover each cell."""
    cells = torch.arange(side, device=device, dtype=torch.float32)
    return torch.minimum(cells, side - 1 - cells).clamp(max=min(block - 1, side - block)) + 1


def seed_rate(rate: float | Tensor, ways: Tensor) -> Tensor:
    """Return the probability g that a position starts a square, such that a fraction `rate` of cells is dropped.

    A cell covered by k possible squares is kept with probability (1 - g)^k, so g solves `mean((1 - g)^k) = 1 - rate`.
    The published `g = rate / mean(k)` ignores overlaps between squares, so its actual rate is too low. With
    `g = 1 - exp(-u)` the logarithm of both sides is convex in u and nearly linear: Newton's method increases toward the
    solution, its first step gives about the published value, and five steps reach fp32 precision. All operations are on
    tensors, so that a rate computed from a step counter on a device needs no synchronization.

    Args:
        rate: the fraction of cells to drop.
        ways: k of each cell, which is 1 for at least one cell (a corner).

    Example:
        >>> seed_rate(0.1, torch.ones(5, 5))  # one square covers all cells: no overlap
        tensor(0.1000)
    """
    stays = torch.log1p(-rate * ways.new_ones(())).clamp(min=-50)  # finite at rate 1, where no cell is kept
    u = ways.new_zeros(())
    for _ in range(5):
        left = torch.exp(-u * ways)
        u = u + (left.mean().log() - stays) * left.mean() / (left * ways).mean()
    return -torch.expm1(-u)


class DropBlock(StepCounter):
    """Dropout of whole squares in training, at a rate that grows from 0 over the first steps: see `drop_block`.

    The module counts its calls in training mode, as part of its state; `layer.set_step(n)` sets the count. In
    evaluation mode it is the identity and does not count. Random numbers come from PyTorch's global generator, as in
    `nn.Dropout`.

    Args:
        rate: the expected fraction of cells to drop, from 0 to 1.
        block: the side length of a square; on a smaller map it is cut to the size of the map.
        ramp: steps until the full rate is reached; 0 uses it from the start.

    Example:
        >>> layer = DropBlock(0.1, block=5, ramp=40_000)
        >>> maps = layer(torch.randn(64, 320, 10, 10))
    """

    def __init__(self, rate: float, block: int, ramp: int = 0) -> None:
        super().__init__()
        if not 0 <= rate <= 1:
            raise OptionError(f"rate is {rate} but must be a fraction of cells between 0 and 1.")
        if not 1 <= block < float("inf") or block != int(block):
            raise OptionError(f"block is {block} but must be the side of the squares, a whole number of at least 1.")
        self.rate, self.block, self.ramp = rate, int(block), check_steps("ramp", ramp)

    def forward(self, x: Tensor) -> Tensor:
        """Drop squares of (B, C, H, W) maps."""
        if not self.training:
            return x
        step = self.tick()
        return drop_block(x, self.rate * ramp(step, self.ramp), self.block) if self.rate else x

    def extra_repr(self) -> str:
        """Return the settings, for `print(model)`."""
        return f"rate={self.rate}, block={self.block}, ramp={self.ramp}"
