"""Pre-activation ResNet-18 for 32x32 images with any seventeen widths, the other network that NeuralScale rescales."""

from dataclasses import dataclass

from torch import Tensor, nn

from ..._ranges import Width
from ...errors import OptionError
from ..types import Model
from ..widths import ARCHITECTURES
from .gates import add_gates
from .network import Network, with_pooling
from .residual import convolution


@dataclass(frozen=True)
class PreActResNet18(Model):
    """A 3x3 convolution, eight pre-activation blocks of two, and a last batch norm without ReLU before pooling.

    The last width is the number of features, which have both signs. Initialized by PyTorch's defaults.
    """

    widths: tuple[Width, ...] = ARCHITECTURES["resnet18"].base
    """The filters of the first convolution, then of the two convolutions of each block."""
    gates: bool = False
    """Whether every batch norm is followed by gates, by which a search removes filters."""

    def build(self, channels: int, num_classes: int) -> Network:
        """Build the module with newly initialized weights."""
        shape = ARCHITECTURES["resnet18"]
        if len(self.widths) != len(shape.base):
            raise OptionError(
                f"PreActResNet18 has {len(shape.base)} convolutions beside its shortcuts, but widths names "
                f"{len(self.widths)}: {self.widths}. Give {len(shape.base)}."
            )
        parts: dict[str, nn.Module] = {"conv1": convolution(channels, self.widths[0], 3)}
        for block in range(len(self.widths) // 2):
            stride = 2 if block in shape.strided else 1
            before, middle, width = self.widths[2 * block : 2 * block + 3]
            parts[f"block{block + 1}"] = PreActBlock(before, middle, width, stride)
        parts["bn"] = nn.BatchNorm2d(self.widths[-1])
        model = Network(with_pooling(parts), self.widths[-1], num_classes)
        if self.gates:
            add_gates(model)
        return model


class PreActBlock(nn.Module):
    """Two 3x3 convolutions, each after batch norm and ReLU; the shortcut is 1x1 on the activated input, or identity.

    Args:
        before: channels of the input.
        middle: channels between the convolutions.
        width: channels of the output.
        stride: of the first convolution and the shortcut.
    """

    def __init__(self, before: int, middle: int, width: int, stride: int) -> None:
        super().__init__()
        self.bn1, self.conv1 = nn.BatchNorm2d(before), convolution(before, middle, 3, stride)
        self.bn2, self.conv2 = nn.BatchNorm2d(middle), convolution(middle, width, 3)
        self.relu = nn.ReLU()
        self.shortcut = convolution(before, width, 1, stride) if stride > 1 or before != width else None

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, before, H, W) to (B, width, H / stride, W / stride)."""
        active = self.relu(self.bn1(x))
        residual: Tensor = self.conv2(self.relu(self.bn2(self.conv1(active))))
        return residual + (x if self.shortcut is None else self.shortcut(active))
