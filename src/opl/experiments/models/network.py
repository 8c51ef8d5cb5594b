"""The module shared by all architectures: parts that run in sequence, then the classifier `fc`; and normalization."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ...errors import OptionError
from ..types import Output

STANDARDIZE = "standardize"  # the part that normalizes images
POOL = "avgpool"  # the part that averages the last feature map over its positions


class Network(nn.Module):
    """A sequence of parts that computes (B, D) features, and the linear classifier `fc` on them.

    The parts are direct children under the given names, so these names also appear in the state dict.

    Args:
        parts: modules by name, in order from images to features.
        feature_dim: D, the number of features.
        num_classes: C, the number of logits.
    """

    def __init__(self, parts: Mapping[str, nn.Module], feature_dim: int, num_classes: int) -> None:
        super().__init__()
        for name, part in parts.items():
            self.add_module(name, part)
        self.fc: nn.Module = nn.Linear(feature_dim, num_classes)
        self.feature_dim = feature_dim
        self.path = tuple(parts)
        self.facts: dict[str, Any] = {}
        """What the network adds to `result.json`."""

    def forward(
        self, images: Tensor, labels: Tensor | None = None, change: Callable[[Tensor], Tensor] | None = None
    ) -> Output:
        """Map (B, channels, H, W) images to (B, D) features and (B, C) logits.

        `labels` are for the margin of a head. `change` receives the last feature map, (B, D, H, W), before average
        pooling, and its return value replaces the map; a method that masks parts of the map passes it in training.
        """
        features = images
        for name in self.path:
            if change is not None and name == POOL:
                features = change(features)
            features = getattr(self, name)(features)
        return Output(features, self.fc(features) if labels is None else self.fc(features, labels))

    def after(self, maps: Tensor) -> Output:
        """Compute the output from a last feature map: average pooling and all parts after it."""
        features = maps
        for name in self.path[self.path.index(POOL) :]:
            features = getattr(self, name)(features)
        return Output(features, self.fc(features))


def with_pooling(parts: Mapping[str, nn.Module]) -> dict[str, nn.Module]:
    """Return the parts followed by average pooling, from (B, D, H, W) maps to (B, D) features."""
    return {**parts, POOL: nn.AdaptiveAvgPool2d(1), "flatten": nn.Flatten()}


def conv_chain(channels: int, widths: Sequence[int], *, pool_after: Collection[int], bias: bool) -> nn.Sequential:
    """Build a 3x3 convolution, batch norm and ReLU per width, with a 2x2 max-pool after each of `pool_after`.

    `pool_after` counts the convolutions from 1.
    """
    layers: list[nn.Module] = []
    for index, (before, width) in enumerate(zip((channels, *widths), widths, strict=False), start=1):
        layers += [nn.Conv2d(before, width, 3, padding=1, bias=bias), nn.BatchNorm2d(width), nn.ReLU()]
        if index in pool_after:
            layers.append(nn.MaxPool2d(2))
    return nn.Sequential(*layers)


def draw_convolutions(model: nn.Module, draw: Callable[[Tensor], object]) -> None:
    """Initialize the weights of every convolution in place with `draw`, and the biases, if any, with zero."""
    for part in model.modules():
        if isinstance(part, nn.Conv2d):
            draw(part.weight)
            if part.bias is not None:
                nn.init.zeros_(part.bias)


def he_normal_fan_out(weight: Tensor) -> None:
    """Initialize with He-normal weights of variance 2 / fan_out, which preserves the gradient's variance under ReLU."""
    nn.init.kaiming_normal_(weight, mode="fan_out", nonlinearity="relu")


class Standardize(nn.Module):
    """Compute `(images - mean) / std` per channel; both are in the state dict, so weights include their normalization.

    Example:
        >>> Standardize((0.5,), (0.25,))(torch.ones(1, 1, 1, 1))
        tensor([[[[2.]]]])
    """

    mean: Tensor
    std: Tensor

    def __init__(self, mean: tuple[float, ...], std: tuple[float, ...]) -> None:
        super().__init__()
        if len(mean) != len(std) or min(std, default=0) <= 0:
            raise OptionError(f"mean is {mean} and std is {std}: must have one number per channel, every std above 0.")
        self.register_buffer("mean", torch.tensor(mean).view(-1, 1, 1))
        self.register_buffer("std", torch.tensor(std).view(-1, 1, 1))

    def forward(self, images: Tensor) -> Tensor:
        """Normalize (B, C, H, W) images."""
        return (images - self.mean) / self.std


def prepend_standardize(network: Network, mean: tuple[float, ...], std: tuple[float, ...]) -> Network:
    """Insert `Standardize` before the first part of the network, in place; all parts keep their names."""
    network.add_module(STANDARDIZE, Standardize(mean, std))
    network.path = (STANDARDIZE, *network.path)
    return network
