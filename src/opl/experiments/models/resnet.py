"""ResNet-18, -34, -50 and -101 with torchvision's names and shapes, so that its weights load; and a small ResNet-10."""

from dataclasses import dataclass
from typing import Annotated, Literal

from torch import nn

from ..._ranges import Multiple, OneOf, check_settings
from ..types import Model
from .network import Network, draw_convolutions, he_normal_fan_out, with_pooling
from .residual import BasicBlock, Bottleneck, convolution, stages

Stem = Literal["imagenet", "half", "cifar"]

LAYOUTS: dict[int, tuple[type[BasicBlock] | type[Bottleneck], tuple[int, ...]]] = {
    10: (BasicBlock, (1, 1, 1, 1)),
    18: (BasicBlock, (2, 2, 2, 2)),
    34: (BasicBlock, (3, 4, 6, 3)),
    50: (Bottleneck, (3, 4, 6, 3)),
    101: (Bottleneck, (3, 4, 23, 3)),
}


@dataclass(frozen=True)
class ResNet(Model):
    """A ResNet with four stages of widths 64, 128, 256, 512, or four times these from depth 50 on.

    The last width is the number of features, which are non-negative. The "imagenet" stem (7x7 convolution and max-pool,
    a quarter of the size) and the "half" stem (3x3 convolution, half the size) use torchvision's He-normal
    initialization; the "cifar" stem (3x3 convolution, full size) uses PyTorch's default initialization, as in the
    label-noise experiments.
    """

    depth: Annotated[int, OneOf(tuple(LAYOUTS))] = 18
    stem: Stem = "imagenet"
    width: Annotated[int, Multiple(8, 8)] = 64  # oneDNN crashes in the channels-last gradient of some other widths
    """Width of the first stage; 64 in published weights."""

    def build(self, channels: int, num_classes: int) -> Network:
        """Build the module with newly initialized weights."""
        check_settings(self, "model.")
        block, counts = LAYOUTS[self.depth]
        size, stride = {"imagenet": (7, 2), "half": (3, 2), "cifar": (3, 1)}[self.stem]
        stem: dict[str, nn.Module] = {
            "conv1": convolution(channels, self.width, size, stride),
            "bn1": nn.BatchNorm2d(self.width),
            "relu": nn.ReLU(),
        }
        if self.stem == "imagenet":
            stem["maxpool"] = nn.MaxPool2d(3, stride=2, padding=1)
        trunk = stages(block, self.width, self.width, counts, block.expansion)
        model = Network(with_pooling({**stem, **trunk}), 8 * self.width * block.expansion, num_classes)
        if self.stem != "cifar":
            draw_convolutions(model, he_normal_fan_out)
        return model
