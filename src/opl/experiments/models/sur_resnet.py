"""SUR's ResNet-18 for images of 84 pixels (table 7), alone or as a member of its parametric family."""

import math
from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor, nn

from ..._ranges import Multiple, check_settings
from ...heads import Head
from ...heads.cosface import cosface
from ..types import Model
from .film import adapt
from .network import Network, draw_convolutions, he_normal_fan_out, with_pooling
from .residual import BasicBlock, stages

SCALE = 10.0  # of the cosines, before training


@dataclass(frozen=True)
class SurResNet(Model):
    """ResNet-18 with a 5x5 stem of stride 2 and no max-pool, and a cosine classifier with a learned scale.

    The features are non-negative, eight times the width many. With `adapters` it is a member of the parametric family:
    a scale and a shift after each batch norm of every block and of the input are trained together with the classifier,
    everything else is frozen; let its recipe inherit the weights of the base network.
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
