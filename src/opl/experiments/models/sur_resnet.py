"""SUR's ResNet-18 for images of 84 pixels (table 7), alone or with adapters as a member of its parametric family."""

import math
from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor, nn

from ..._ranges import Multiple, check_settings
from ...heads import Head
from ...heads.cosface import cosface
from ..types import Model
from .network import Network, draw_convolutions, he_normal_fan_out, with_pooling
from .residual import BasicBlock, stages

SCALE = 10.0  # factor of the cosines, before training
INPUT, FILM = "input_affine", ("film_scale", "film_shift")  # the adapters, by name


@dataclass(frozen=True)
class SurResNet(Model):
    """ResNet-18 with a 5x5 stem of stride 2 and no max-pool, and a cosine classifier with a learned scale.

    It has `8 * width` features, all non-negative. With `adapters` it is a member of the parametric family: a scale and
    a shift after each batch norm of every block and of the input are trained together with the classifier, and all else
    is frozen; its recipe must inherit the weights of the base network.
    """

    width: Annotated[int, Multiple(8, 8)] = 64
    """Width of the first stage."""
    adapters: bool = False
    """Train a scale and a shift of each channel on a frozen network."""

    def build(self, channels: int, num_classes: int) -> Network:
        """Build the module with newly initialized weights: He-normal convolutions."""
        check_settings(self, "model.")
        stem: dict[str, nn.Module] = {
            "conv1": nn.Conv2d(channels, self.width, 5, stride=2, padding=1, bias=False),
            "bn1": nn.BatchNorm2d(self.width),
            "relu": nn.ReLU(),
        }
        trunk = stages(BasicBlock, self.width, self.width, (2, 2, 2, 2))
        model = Network(with_pooling({**stem, **trunk}), 8 * self.width, num_classes)
        draw_convolutions(model, he_normal_fan_out)
        model.fc = CosineClassifier(model.feature_dim, num_classes=num_classes)
        return adapt(model, channels) if self.adapters else model


class CosineClassifier(Head):
    """Logits are cosines between features and class vectors, times a learned scale.

    Example:
        >>> head = CosineClassifier(2, num_classes=2)
        >>> head.weight.data = torch.tensor([[2.0, 0.0], [0.0, 3.0]])
        >>> head(torch.tensor([[0.5, 0.0]]))
        tensor([[10.,  0.]], grad_fn=<MulBackward0>)
    """

    def __init__(self, feature_dim: int, *, num_classes: int) -> None:
        super().__init__(feature_dim, num_classes=num_classes)
        self.weight = nn.Parameter(torch.randn(num_classes, feature_dim) * math.sqrt(2 / num_classes))
        self.scale = nn.Parameter(torch.tensor(SCALE))

    def logits(self, features: Tensor, labels: Tensor | None) -> Tensor:
        """Compute the scaled cosines; there is no margin."""
        return self.scale * cosface(features, self.weight, scale=1.0)


class FilmNorm(nn.BatchNorm2d):
    """Batch norm followed by a scale and a shift of each channel, which start as the identity.

    Example:
        >>> norm, x = FilmNorm(2).eval(), torch.ones(1, 2, 1, 1)
        >>> norm(x).equal(nn.BatchNorm2d(2).eval()(x))
        True
    """

    def __init__(self, width: int) -> None:
        super().__init__(width)
        self.film_scale = nn.Parameter(torch.ones(width))
        self.film_shift = nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor) -> Tensor:
        """Normalize (B, C, H, W), then scale and shift."""
        return super().forward(x) * self.film_scale[:, None, None] + self.film_shift[:, None, None]


class InputAffine(nn.Module):
    """A scale and a shift of each channel of the image, which start as the identity."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(channels))
        self.shift = nn.Parameter(torch.zeros(channels))

    def forward(self, images: Tensor) -> Tensor:
        """Scale and shift (B, C, H, W) images."""
        return images * self.scale[:, None, None] + self.shift[:, None, None]


def adapt(network: Network, channels: int) -> Network:
    """Add adapters to both batch norms of every block and to the input, and freeze everything else but the classifier.

    The statistics of batch norm are not frozen: in training mode they become the domain's statistics, as in SUR's code.
    """
    for block in [part for part in network.modules() if isinstance(part, BasicBlock)]:
        block.bn1, block.bn2 = FilmNorm(block.bn1.num_features), FilmNorm(block.bn2.num_features)
    network.add_module(INPUT, InputAffine(channels))
    network.path = (INPUT, *network.path)
    for name, parameter in network.named_parameters():
        parameter.requires_grad_(is_adapter(name) or name.startswith("fc."))
    return network


def is_adapter(name: str) -> bool:
    """Return whether a name in the state dict belongs to an adapter.

    Example:
        >>> is_adapter("layer1.0.bn1.film_scale"), is_adapter("input_affine.shift"), is_adapter("layer1.0.bn1.weight")
        (True, True, False)
    """
    return name.startswith(f"{INPUT}.") or name.rpartition(".")[2] in FILM
