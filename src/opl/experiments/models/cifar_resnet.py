"""ResNets for 32x32 images (ResNet-56 and ResNet-110 of table 1): three stages of basic blocks."""

from dataclasses import dataclass
from typing import Annotated

from torch import nn

from ..._ranges import Multiple, Width, check_settings
from ..types import Model
from .network import Network, draw_convolutions, with_pooling
from .residual import BasicBlock, convolution, stages


@dataclass(frozen=True)
class CifarResNet(Model):
    """A ResNet with `6n + 2` layers (8, 20, 32, 44, 56, 110): n basic blocks at each of the widths w, 2w, 4w.

    Shortcuts are 1x1 convolutions where the width changes ("option B") and identities elsewhere. It has 4w features,
    all non-negative.
    """

    depth: Annotated[int, Multiple(6, 8, 2, 2000)] = 56
    width: Width = 16

    def build(self, channels: int, num_classes: int) -> Network:
        """Build the module with newly initialized weights: He-uniform convolutions."""
        check_settings(self, "model.")
        count = (self.depth - 2) // 6
        stem = {"conv1": convolution(channels, self.width, 3), "bn1": nn.BatchNorm2d(self.width), "relu": nn.ReLU()}
        trunk = stages(BasicBlock, self.width, self.width, (count,) * 3)
        model = Network(with_pooling({**stem, **trunk}), 4 * self.width, num_classes)
        draw_convolutions(model, nn.init.kaiming_uniform_)
        return model
