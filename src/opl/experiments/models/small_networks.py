"""Small networks: for the 8x8 digits of scikit-learn (`opl demo`), and for MNIST (table S1, figure 2)."""

from dataclasses import dataclass
from typing import Annotated

from torch import nn

from ..._ranges import Range, Width
from ..types import Model
from .network import Network, conv_chain, with_pooling


@dataclass(frozen=True)
class DigitsNet(Model):
    """Two 3x3 convolutions with a max-pool between them, averaged to `2 * width` non-negative features.

    It has no batch norm, so the features of a sample do not depend on its batch: two processes train it exactly as one.
    """

    width: Width = 32

    def build(self, channels: int, num_classes: int) -> Network:
        """Build the module with PyTorch's default initialization."""
        trunk = nn.Sequential(
            nn.Conv2d(channels, self.width, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(self.width, 2 * self.width, 3, padding=1),
            nn.ReLU(),
        )
        return Network(with_pooling({"trunk": trunk}), 2 * self.width, num_classes)


@dataclass(frozen=True)
class MnistNet(Model):
    """Four 3x3 convolutions with batch norm, a max-pool after each of the first three, then average pooling.

    Args:
        widths: widths of the four convolutions; the last is the number of features.
        embed: number of features after an additional linear layer, 2 for a plot; 0 for no such layer.
    """

    widths: tuple[Width, Width, Width, Width] = (32, 64, 64, 32)
    embed: Annotated[int, Range(0, 4096)] = 0

    def build(self, channels: int, num_classes: int) -> Network:
        """Build the module with PyTorch's default initialization."""
        trunk = conv_chain(channels, self.widths, pool_after=(1, 2, 3), bias=False)
        parts = with_pooling({"trunk": trunk})
        if self.embed:
            parts["embed"] = nn.Linear(self.widths[-1], self.embed)
        return Network(parts, self.embed or self.widths[-1], num_classes)
