"""EfficientNet-Lite0, whose published ImageNet weights come as a small package: a network to fine-tune anywhere."""

import math
from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor, nn

from ..._ranges import Fraction, check_settings
from ..types import Model
from .network import Network, with_pooling

STAGES = (  # kernel, stride, output channels, expansion, repetitions
    (3, 1, 16, 1, 1),
    (3, 2, 24, 6, 2),
    (5, 2, 40, 6, 2),
    (3, 2, 80, 6, 3),
    (5, 1, 112, 6, 3),
    (5, 2, 192, 6, 4),
    (3, 1, 320, 6, 1),
)
STEM, FEATURES = 32, 1280
EPSILON = 1e-3  # of every batch norm
MEAN, STD = 127 / 255, 128 / 255  # of pixels in [0, 1]


@dataclass(frozen=True)
class EfficientNetLite0(Model):
    """Inverted bottlenecks with ReLU6 and without squeeze-and-excitation; 1,280 non-negative features.

    Convolutions are padded as in TensorFlow. There is no dropout before the classifier, so OPL sees the same
    features as the test.
    """

    momentum: Fraction = 0.01
    """Momentum of batch norm's running statistics, by default as published; 0.1 adapts them in a few hundred steps."""

    @property
    def scaling(self) -> tuple[float, float]:
        """Mean and standard deviation of pixels in [0, 1] with which the published weights were trained."""
        return MEAN, STD

    def build(self, channels: int, num_classes: int) -> Network:
        """Build the module with newly initialized weights."""
        check_settings(self, "model.")
        blocks: list[nn.Module] = []
        width = STEM
        for kernel, stride, out, expansion, repetitions in STAGES:
            for index in range(repetitions):
                blocks.append(_Block(width, out, kernel, stride if index == 0 else 1, expansion))
                width = out
        parts: dict[str, nn.Module] = {
            "conv_stem": _SameConv2d(channels, STEM, 3, stride=2),
            "bn0": _norm(STEM),
            "relu0": nn.ReLU6(),
            "blocks": nn.Sequential(*blocks),
            "conv_head": _SameConv2d(width, FEATURES, 1),
            "bn1": _norm(FEATURES),
            "relu1": nn.ReLU6(),
        }
        network = Network(with_pooling(parts), FEATURES, num_classes)
        for part in network.modules():
            if isinstance(part, nn.BatchNorm2d):
                part.momentum = self.momentum
        return network


def published_names(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """Rename published weights to the names of this network; return other weights unchanged.

    Example:
        >>> list(published_names({"_blocks.0._bn1.bias": Tensor(), "_fc.weight": Tensor()}))
        ['blocks.0.bn1.bias', 'fc.weight']
    """
    if "_fc.weight" not in weights:
        return weights
    return {".".join(part.removeprefix("_") for part in name.split(".")): value for name, value in weights.items()}


class _SameConv2d(nn.Conv2d):
    """A convolution whose output has `ceil(size / stride)` rows; an odd padding row is at the bottom and right."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> None:
        super().__init__(inputs, outputs, kernel, stride, groups=groups, bias=False)

    def forward(self, input: Tensor) -> Tensor:
        """Pad and convolve."""
        rows, columns = (self._padding(size) for size in input.shape[-2:])
        padded = F.pad(input, (columns // 2, columns - columns // 2, rows // 2, rows - rows // 2))
        return super().forward(padded)

    def _padding(self, size: int) -> int:
        stride, kernel = int(self.stride[0]), int(self.kernel_size[0])
        return max((math.ceil(size / stride) - 1) * stride + kernel - size, 0)


class _Block(nn.Module):
    """Expand, convolve each channel, project; the input is added where shapes agree."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        width = inputs * expansion
        if expansion > 1:
            self.expand_conv, self.bn0 = _SameConv2d(inputs, width, 1), _norm(width)
        self.expands = expansion > 1
        self.depthwise_conv, self.bn1 = _SameConv2d(width, width, kernel, stride, groups=width), _norm(width)
        self.project_conv, self.bn2 = _SameConv2d(width, outputs, 1), _norm(outputs)
        self.skips = stride == 1 and inputs == outputs

    def forward(self, maps: Tensor) -> Tensor:
        """Map (B, inputs, H, W) to (B, outputs, H / stride, W / stride)."""
        hidden = F.relu6(self.bn0(self.expand_conv(maps))) if self.expands else maps
        hidden = F.relu6(self.bn1(self.depthwise_conv(hidden)))
        projected: Tensor = self.bn2(self.project_conv(hidden))
        return projected + maps if self.skips else projected


def _norm(width: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(width, eps=EPSILON)
