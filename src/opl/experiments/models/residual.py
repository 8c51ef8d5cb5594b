"""Post-activation residual blocks and stages; attribute names match torchvision's state dicts."""

from collections.abc import Callable

from torch import Tensor, nn


class BasicBlock(nn.Module):
    """Two 3x3 convolutions with a shortcut; the first convolution has the stride."""

    expansion = 1  # output width divided by `width`

    def __init__(self, before: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = convolution(before, width, 3, stride), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = convolution(width, width, 3), nn.BatchNorm2d(width)
        self.relu = nn.ReLU()
        self.downsample = shortcut(before, width, stride)

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, before, H, W) to (B, width, H / stride, W / stride)."""
        residual = self.relu(self.bn1(self.conv1(x)))
        residual = self.bn2(self.conv2(residual))
        total: Tensor = self.relu(residual + self.downsample(x))
        return total


class Bottleneck(nn.Module):
    """1x1, 3x3 and 1x1 convolutions with a shortcut; the 3x3 convolution has the stride ("v1.5")."""

    expansion = 4

    def __init__(self, before: int, width: int, stride: int) -> None:
        super().__init__()
        after = width * self.expansion
        self.conv1, self.bn1 = convolution(before, width, 1), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = convolution(width, width, 3, stride), nn.BatchNorm2d(width)
        self.conv3, self.bn3 = convolution(width, after, 1), nn.BatchNorm2d(after)
        self.relu = nn.ReLU()
        self.downsample = shortcut(before, after, stride)

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, before, H, W) to (B, 4 * width, H / stride, W / stride)."""
        residual = self.relu(self.bn1(self.conv1(x)))
        residual = self.relu(self.bn2(self.conv2(residual)))
        residual = self.bn3(self.conv3(residual))
        total: Tensor = self.relu(residual + self.downsample(x))
        return total


def convolution(before: int, after: int, size: int, stride: int = 1) -> nn.Conv2d:
    """Build a convolution without bias (batch norm follows), padded to keep the size of the map up to the stride."""
    return nn.Conv2d(before, after, size, stride, padding=size // 2, bias=False)


def shortcut(before: int, after: int, stride: int) -> nn.Module:
    """Build the identity, or a 1x1 convolution and batch norm if the shape changes ("option B")."""
    if stride == 1 and before == after:
        return nn.Identity()
    return nn.Sequential(convolution(before, after, 1, stride), nn.BatchNorm2d(after))


def stages(
    block: Callable[[int, int, int], nn.Module], before: int, width: int, counts: tuple[int, ...], expansion: int = 1
) -> dict[str, nn.Module]:
    """Build the stages `layer1`, `layer2`, ... with `counts` blocks each.

    Each stage after the first doubles the width and halves the size of the map. `block` takes the channels of its
    input, its width and its stride; `expansion` is the ratio of its output to its width.
    """
    layers: dict[str, nn.Module] = {}
    for number, count in enumerate(counts, start=1):
        strides = (1 if number == 1 else 2, *(1,) * (count - 1))
        blocks: list[nn.Module] = []
        for stride in strides:
            blocks.append(block(before, width, stride))
            before = width * expansion
        layers[f"layer{number}"] = nn.Sequential(*blocks)
        width *= 2
    return layers
