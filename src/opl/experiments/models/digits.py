"""A small network for scikit-learn's 8x8 digits, used by `opl demo`."""

from dataclasses import dataclass

from torch import nn

from ..._ranges import Width
from ..types import Model
from .network import Network, with_pooling


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
