"""A net for scikit-learn's 8x8 digits, the one of `opl demo`."""

from dataclasses import dataclass

from torch import nn

from ..types import Model
from .network import Network, with_pooling


@dataclass(frozen=True)
class DigitsNet(Model):
    """Two 3x3 convolutions, a max-pool between, averaged to `2 * width` features, none negative.

    It has no batch norm, so that no sample's features depend on its batch: two processes train it exactly like one.
    """

    width: int = 32

    def build(self, channels: int, num_classes: int) -> Network:
        """The module, with new weights, PyTorch's own."""
        trunk = nn.Sequential(
            nn.Conv2d(channels, self.width, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(self.width, 2 * self.width, 3, padding=1),
            nn.ReLU(),
        )
        return Network(with_pooling({"trunk": trunk}), 2 * self.width, num_classes)
