"""Wide ResNets for 32x32 images (WRN-28-10 and WRN-34-10, the nets of adversarial training): pre-activation blocks."""

from dataclasses import dataclass

from torch import Tensor, nn

from ...errors import OptionError
from ..types import Model
from .network import Network, draw_convolutions, he_normal_fan_out, with_pooling
from .residual import convolution


@dataclass(frozen=True)
class WideResNet(Model):
    """A ResNet of `6n + 4` layers (16, 22, 28, 34, 40): n blocks at each of widths 16w, 32w, 64w.

    Batch norm and ReLU come before each convolution, and once more after the last; features: 64w, none negative.
    """

    depth: int = 28
    width: int = 10
    """How many times wider than the narrowest."""

    def build(self, channels: int, num_classes: int) -> Network:
        """The module, with new weights: He-normal convolutions, a classifier without bias at the start."""
        if self.depth < 10 or self.depth % 6 != 4:
            below = max(10, self.depth - (self.depth - 4) % 6)
            raise OptionError(
                f"a WideResNet of depth {self.depth} does not exist, its depth is 6n + 4: "
                f"take depth={below} or depth={below + 6}."
            )
        if self.width < 1:
            raise OptionError(f"width is {self.width}: give a whole number of at least 1.")
        count, before = (self.depth - 4) // 6, 16
        parts: dict[str, nn.Module] = {"conv1": convolution(channels, before, 3)}
        for number, stride in enumerate((1, 2, 2)):
            width = 16 * self.width * 2**number
            first = PreActivationBlock(before, width, stride)
            rest = (PreActivationBlock(width, width, 1) for _ in range(count - 1))
            parts[f"layer{number + 1}"] = nn.Sequential(first, *rest)
            before = width
        parts |= {"bn": nn.BatchNorm2d(before), "relu": nn.ReLU()}
        model = Network(with_pooling(parts), before, num_classes)
        draw_convolutions(model, he_normal_fan_out)
        nn.init.zeros_(model.fc.bias)  # type: ignore[arg-type]
        return model


class PreActivationBlock(nn.Module):
    """Two 3x3 convolutions, each after batch norm and ReLU, beside a shortcut.

    Where the shape changes the shortcut is a 1x1 convolution of the *activated* input; elsewhere the input itself.
    """

    def __init__(self, before: int, width: int, stride: int) -> None:
        super().__init__()
        self.bn1, self.conv1 = nn.BatchNorm2d(before), convolution(before, width, 3, stride)
        self.bn2, self.conv2 = nn.BatchNorm2d(width), convolution(width, width, 3)
        self.relu = nn.ReLU()
        same = stride == 1 and before == width
        self.downsample = None if same else convolution(before, width, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        """(B, before, H, W) to (B, width, H / stride, W / stride)."""
        active = self.relu(self.bn1(x))
        shortcut = x if self.downsample is None else self.downsample(active)
        residual: Tensor = self.conv2(self.relu(self.bn2(self.conv1(active))))
        return residual + shortcut
