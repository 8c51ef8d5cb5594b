"""Wide ResNets for 32x32 images (WRN-28-10 and WRN-34-10, used in adversarial training): pre-activation blocks."""

from dataclasses import dataclass
from typing import Annotated

from torch import Tensor, nn

from ..._ranges import Multiple, Range, check_settings
from ..types import Model
from .network import Network, draw_convolutions, he_normal_fan_out, with_pooling
from .residual import convolution, stages


@dataclass(frozen=True)
class WideResNet(Model):
    """A ResNet with `6n + 4` layers (16, 22, 28, 34, 40): n blocks at each of the widths 16w, 32w, 64w.

    Batch norm and ReLU precede each convolution and follow the last one. It has 64w features, all non-negative.
    """

    depth: Annotated[int, Multiple(6, 10, 4, 2000)] = 28
    width: Annotated[int, Range(1, 64)] = 10
    """The widening factor w; 1 is the narrowest network."""

    def build(self, channels: int, num_classes: int) -> Network:
        """Build the module with newly initialized weights: He-normal convolutions, classifier bias 0."""
        check_settings(self, "model.")
        count, features = (self.depth - 4) // 6, 64 * self.width
        parts: dict[str, nn.Module] = {"conv1": convolution(channels, 16, 3)}
        parts |= stages(PreActivationBlock, 16, 16 * self.width, (count,) * 3)
        parts |= {"bn": nn.BatchNorm2d(features), "relu": nn.ReLU()}
        model = Network(with_pooling(parts), features, num_classes)
        draw_convolutions(model, he_normal_fan_out)
        nn.init.zeros_(model.fc.bias)  # type: ignore[arg-type]
        return model


class PreActivationBlock(nn.Module):
    """Two 3x3 convolutions, each after batch norm and ReLU, with a shortcut.

    The shortcut is a 1x1 convolution of the *activated* input if the shape changes, otherwise the input itself.
    """

    def __init__(self, before: int, width: int, stride: int) -> None:
        super().__init__()
        self.bn1, self.conv1 = nn.BatchNorm2d(before), convolution(before, width, 3, stride)
        self.bn2, self.conv2 = nn.BatchNorm2d(width), convolution(width, width, 3)
        self.relu = nn.ReLU()
        same = stride == 1 and before == width
        self.downsample = None if same else convolution(before, width, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, before, H, W) to (B, width, H / stride, W / stride)."""
        active = self.relu(self.bn1(x))
        shortcut = x if self.downsample is None else self.downsample(active)
        residual: Tensor = self.conv2(self.relu(self.bn2(self.conv1(active))))
        return residual + shortcut
