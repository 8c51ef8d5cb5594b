"""VGG-11 for 32x32 images with any eight widths, the network that NeuralScale rescales (table S2)."""

from dataclasses import dataclass

from torch import nn

from ..._ranges import Width
from ...errors import OptionError
from ..types import Model
from ..widths import ARCHITECTURES
from .gates import add_gates
from .network import Network, conv_chain, draw_convolutions, he_normal_fan_out, with_pooling


@dataclass(frozen=True)
class Vgg11(Model):
    """Eight 3x3 convolutions with batch norm and five max-pools, which reduce 32x32 to 1x1.

    The last width is the number of features, which are non-negative. Images must be at least 32 pixels on each side; if
    more than one position remains, the positions are averaged.
    """

    widths: tuple[Width, ...] = ARCHITECTURES["vgg11"].base
    gates: bool = False
    """Whether every batch norm is followed by gates, by which a search removes filters."""

    def build(self, channels: int, num_classes: int) -> Network:
        """Build the module with NeuralScale's initialization: batch norm weights of 0.5 and a small classifier."""
        if len(self.widths) != 8:
            raise OptionError(f"Vgg11 has 8 convolutions, but widths names {len(self.widths)}: {self.widths}. Give 8.")
        trunk = conv_chain(channels, self.widths, pool_after=(1, 2, 4, 6, 8), bias=True)
        model = Network(with_pooling({"trunk": trunk}), self.widths[-1], num_classes)
        draw_convolutions(model, he_normal_fan_out)
        for part in model.modules():
            if isinstance(part, nn.BatchNorm2d):
                nn.init.constant_(part.weight, 0.5)
            elif isinstance(part, nn.Linear):
                nn.init.normal_(part.weight, std=0.01)
                nn.init.zeros_(part.bias)
        if self.gates:
            add_gates(model)
        return model
