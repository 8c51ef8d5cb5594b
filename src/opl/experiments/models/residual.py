"""Residual blocks and stages of them, post-activation; attribute names are those of torchvision's state dicts."""

from torch import Tensor, nn


class BasicBlock(nn.Module):
    """Two 3x3 convolutions beside a shortcut; the stride is in the first."""

    expansion = 1  # how many times wider than `width` the output is

    def __init__(self, before: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = convolution(before, width, 3, stride), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = convolution(width, width, 3), nn.BatchNorm2d(width)
        self.relu = nn.ReLU()
        self.downsample = shortcut(before, width, stride)

    def forward(self, x: Tensor) -> Tensor:
        """(B, before, H, W) to (B, width, H / stride, W / stride)."""
        residual = self.relu(self.bn1(self.conv1(x)))
        residual = self.bn2(self.conv2(residual))
        total: Tensor = self.relu(residual + self.downsample(x))
        return total


class Bottleneck(nn.Module):
    """1x1, 3x3 and 1x1 convolutions beside a shortcut; the stride is in the 3x3 one ("v1.5")."""

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
        """(B, before, H, W) to (B, 4 * width, H / stride, W / stride)."""
        residual = self.relu(self.bn1(self.conv1(x)))
        residual = self.relu(self.bn2(self.conv2(residual)))
        residual = self.bn3(self.conv3(residual))
        total: Tensor = self.relu(residual + self.downsample(x))
        return total


Block = type[BasicBlock] | type[Bottleneck]


def convolution(before: int, after: int, size: int, stride: int = 1) -> nn.Conv2d:
    """A convolution without bias (a batch norm follows) that keeps the map's size, but for its stride."""
    return nn.Conv2d(before, after, size, stride, padding=size // 2, bias=False)


def shortcut(before: int, after: int, stride: int) -> nn.Module:
    """The identity, or a 1x1 convolution and batch norm where the shape changes ("option B")."""
    if stride == 1 and before == after:
        return nn.Identity()
    return nn.Sequential(convolution(before, after, 1, stride), nn.BatchNorm2d(after))


def stages(block: Block, before: int, width: int, counts: tuple[int, ...]) -> dict[str, nn.Module]:
    """`layer1`, `layer2`, ...: each of `counts` blocks; from the second on, twice as wide and at half the size."""
    layers: dict[str, nn.Module] = {}
    for number, count in enumerate(counts, start=1):
        strides = (1 if number == 1 else 2, *(1,) * (count - 1))
        blocks: list[nn.Module] = []
        for stride in strides:
            blocks.append(block(before, width, stride))
            before = width * block.expansion
        layers[f"layer{number}"] = nn.Sequential(*blocks)
        width *= 2
    return layers
