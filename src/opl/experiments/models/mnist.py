"""The four-layer net for MNIST (table S1), and its variant with features in the plane (figure 2)."""

from dataclasses import dataclass

from torch import nn

from ..types import Model
from .network import Network, conv_chain, with_pooling


@dataclass(frozen=True)
class MnistNet(Model):
    """Four 3x3 convolutions with batch norm, a max-pool after each of the first three, then averaged.

    Args:
        widths: of the four convolutions; the last is the number of features.
        embed: the number of features after one more linear layer, 2 for a plot; 0 for no such layer.
        last_relu: without it the last convolution ends in its batch norm, so that features can point anywhere.
    """

    widths: tuple[int, int, int, int] = (32, 64, 64, 32)
    embed: int = 0
    last_relu: bool = True

    def build(self, channels: int, num_classes: int) -> Network:
        """The module, with new weights, PyTorch's own."""
        trunk = conv_chain(channels, self.widths, pool_after=(1, 2, 3), bias=False)
        parts = with_pooling({"trunk": trunk if self.last_relu else trunk[:-1]})
        if self.embed:
            parts["embed"] = nn.Linear(self.widths[-1], self.embed)
        return Network(parts, self.embed or self.widths[-1], num_classes)
