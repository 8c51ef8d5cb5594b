"""Normalization as the first part of a network, so that its input is pixels in [0, 1], which attacks perturb."""

import math

import torch
from torch import Tensor, nn

from ...errors import OptionError
from .network import Network

STANDARDIZE = "standardize"  # the name of the part in a network


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
            raise OptionError(f"mean {mean} and std {std} do not fit: give one of each a channel, each std above 0.")
        self.register_buffer("mean", torch.tensor(mean).view(-1, 1, 1))
        self.register_buffer("std", torch.tensor(std).view(-1, 1, 1))

    def forward(self, images: Tensor) -> Tensor:
        """Normalize (B, C, H, W) images."""
        return (images - self.mean) / self.std


class StandardizeEach(nn.Module):
    """Subtract each image's own mean and divide by its own std, over all pixels and channels, as TensorFlow does.

    The std counts as at least `1 / (255 sqrt(n))` for n values, so that a gray image becomes zeros.

    Example:
        >>> StandardizeEach()(torch.tensor([[[[0.25, 0.75]]]]))
        tensor([[[[-1.,  1.]]]])
    """

    def forward(self, images: Tensor) -> Tensor:
        """Normalize (B, C, H, W) images with pixels in [0, 1]."""
        least = 1 / (255 * math.sqrt(math.prod(images.shape[1:])))
        centered = images - images.mean((1, 2, 3), keepdim=True)
        variance = centered.square().mean((1, 2, 3), keepdim=True)
        return centered / variance.clamp(min=least**2).sqrt()


def prepend_standardize(network: Network, mean: tuple[float, ...], std: tuple[float, ...]) -> Network:
    """Insert `Standardize` before the first part of the network, in place; the other parts keep their names."""
    network.add_module(STANDARDIZE, Standardize(mean, std))
    network.path = (STANDARDIZE, *network.path)
    return network
