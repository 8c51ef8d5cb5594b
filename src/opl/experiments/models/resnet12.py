"""ResNet-12, the network of the few-shot experiments (table 6): four wide blocks with DropBlock."""

from dataclasses import dataclass

from torch import Tensor, nn

from ..._ranges import CountOrZero, FractionBelowOne, Pixels, Width, check_settings
from ...errors import OptionError
from ..types import Model
from .dropblock import DropBlock
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
                f"a map of {x.shape[2]}x{x.shape[3]} cannot be halved: ResNet12 halves images four times, so give "
                "images of 16x16 pixels or more."
            )
        residual = self.relu(self.bn1(self.conv1(x)))
        residual = self.relu(self.bn2(self.conv2(residual)))
        total = self.bn3(self.conv3(residual)) + self.downsample(x)
        halved: Tensor = self.relu(self.maxpool(total))  # published in the other order: same result, 4 times the work
        dropped: Tensor = self.drop(halved)
        return dropped
