"""What every architecture shares: parts that run one after another, then the classifier `fc`."""

from collections.abc import Callable, Collection, Mapping, Sequence

from torch import Tensor, nn

from ..types import Output

POOL = "avgpool"  # the part that averages the last map over its positions


class Network(nn.Module):
    """Parts that run in the order given, down to (B, D) features, and the linear classifier `fc` on those.

    The parts are direct children under their own names, so that these names are the ones in the state dict.

    Args:
        parts: modules by name, from images to features.
        feature_dim: D, the width of what the last part gives.
        num_classes: C, the width of the logits.
    """

    def __init__(self, parts: Mapping[str, nn.Module], feature_dim: int, num_classes: int) -> None:
        super().__init__()
        for name, part in parts.items():
            self.add_module(name, part)
        self.fc: nn.Module = nn.Linear(feature_dim, num_classes)  # registered last: `FeatureTap` finds it unasked
        self.feature_dim = feature_dim
        self.path = tuple(parts)

    def forward(
        self, images: Tensor, labels: Tensor | None = None, change: Callable[[Tensor], Tensor] | None = None
    ) -> Output:
        """(B, channels, H, W) images to their (B, D) features and (B, C) logits.

        Labels are for a head's margin. `change` is called with the last map, (B, D, H, W), before it is averaged, and
        the network goes on with what it returns; a method that blanks parts of the map gives one in training.
        """
        features = images
        for name in self.path:
            if change is not None and name == POOL:
                features = change(features)
            features = getattr(self, name)(features)
        return Output(features, self.fc(features) if labels is None else self.fc(features, labels))

    def after(self, maps: Tensor) -> Output:
        """What the network makes of a last map: the averaging and all that follows it."""
        features = maps
        for name in self.path[self.path.index(POOL) :]:
            features = getattr(self, name)(features)
        return Output(features, self.fc(features))


def with_pooling(parts: Mapping[str, nn.Module]) -> dict[str, nn.Module]:
    """The same parts, their (B, D, H, W) map averaged over its positions to (B, D)."""
    return {**parts, POOL: nn.AdaptiveAvgPool2d(1), "flatten": nn.Flatten()}


def conv_chain(channels: int, widths: Sequence[int], *, pool_after: Collection[int], bias: bool) -> nn.Sequential:
    """3x3 convolution, batch norm and ReLU for each width; a 2x2 max-pool after the convolutions named, from 1 on."""
    layers: list[nn.Module] = []
    for place, (before, width) in enumerate(zip((channels, *widths), widths, strict=False), start=1):
        layers += [nn.Conv2d(before, width, 3, padding=1, bias=bias), nn.BatchNorm2d(width), nn.ReLU()]
        if place in pool_after:
            layers.append(nn.MaxPool2d(2))
    return nn.Sequential(*layers)


def draw_convolutions(model: nn.Module, draw: Callable[[Tensor], object]) -> None:
    """Draw the weights of every convolution anew, in place; biases, where there are any, become zero."""
    for part in model.modules():
        if isinstance(part, nn.Conv2d):
            draw(part.weight)
            if part.bias is not None:
                nn.init.zeros_(part.bias)


def he_normal_fan_out(weight: Tensor) -> None:
    """Normal with variance 2 / (outputs of the kernel): the spread of gradients stays the same through a ReLU net."""
    nn.init.kaiming_normal_(weight, mode="fan_out", nonlinearity="relu")
