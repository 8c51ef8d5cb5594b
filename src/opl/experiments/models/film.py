"""Adapters of a frozen network to a domain: a scale and a shift after batch norm (FiLM), and one of the input image."""

import torch
from torch import Tensor, nn

from .network import Network
from .residual import BasicBlock

SCALE, SHIFT, INPUT = "film_scale", "film_shift", "input_affine"
CLASSIFIER = "fc"


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

    The statistics of batch norm are not frozen: in training mode they become those of the domain, as in SUR's code.
    """
    for block in [part for part in network.modules() if isinstance(part, BasicBlock)]:
        block.bn1, block.bn2 = FilmNorm(block.bn1.num_features), FilmNorm(block.bn2.num_features)
    network.add_module(INPUT, InputAffine(channels))
    network.path = (INPUT, *network.path)
    for name, parameter in network.named_parameters():
        parameter.requires_grad_(is_adapter(name) or name.partition(".")[0] == CLASSIFIER)
    return network


def is_adapter(name: str) -> bool:
    """Whether a name in the state dict is that of an adapter, which a network without adapters does not have.

    Example:
        >>> is_adapter("layer1.0.bn1.film_scale"), is_adapter("input_affine.shift"), is_adapter("layer1.0.bn1.weight")
        (True, True, False)
    """
    return name.startswith(f"{INPUT}.") or name.rpartition(".")[2] in (SCALE, SHIFT)
