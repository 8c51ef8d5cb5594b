"""A wide, shallow network for 32x32 images that learns in few epochs, for judging losses cheaply.

The architecture follows public CIFAR speed-runs: a frozen whitening layer, three groups of convolutions that start
as identities, and a scaled linear classifier.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..._ranges import Width, check_settings
from ..types import Model
from .network import Network

PATCH = 2  # pixels of a side of the patches that the first layer whitens
EPSILON = 5e-4  # added to the eigenvalues
IMAGES = 5000  # training images from which patches are taken
SCALE = 1.25 / 9  # factor of the features
KERNELS = ((3, 1, 1), (3, 3, 1), (2, 3, 3))  # of the three convolutions of each group


@dataclass(frozen=True)
class FastNet(Model):
    """Three groups of widths 64, 256 and 768 after a whitening layer; half of that with `half`.

    Its 768 (or 384) features are slightly negative, because of SiLU.
    """

    half: bool = False
    """Half of all widths, for about a quarter of the time."""
    width: Width = 64
    """Channels of the first group; the second and third have 4 and 12 times as many."""

    def build(self, channels: int, num_classes: int) -> Network:
        """Build the module; its whitening layer is random until `fit_images` computes it from images."""
        check_settings(self, "model.")
        width = max(1, self.width // 2) if self.half else self.width
        widths, inner = (width, 4 * width, 12 * width), (width, 3 * width, 8 * width)
        parts: dict[str, nn.Module] = {"stem": nn.Sequential(WhiteningStem(channels), nn.SiLU())}
        before = 2 * channels * PATCH * PATCH
        for number, (wide, mid, kernels) in enumerate(zip(widths, inner, KERNELS, strict=True), 1):
            parts[f"group{number}"] = Group(before, wide, mid, kernels)
            before = wide
        model = WhitenedNetwork({**parts, "pool": MaxPlusMean()}, widths[-1], num_classes)
        model.fc = nn.Linear(widths[-1], num_classes, bias=False)
        return model


class WhitenedNetwork(Network):
    """A network whose first layer is computed from training images, before training."""

    @torch.no_grad()
    def fit_images(self, images: Tensor) -> None:
        """Compute the first layer from (N, C, H, W) images, as they will be passed to the network."""
        stem = self.get_submodule("stem.0")
        assert isinstance(stem, WhiteningStem)
        stem.weight.copy_(whitening_filters(images))


def whitening_filters(images: Tensor, epsilon: float = EPSILON) -> Tensor:
    """Return (2n, C, 2, 2) filters, n = 4C: plus and minus the eigenvectors of the patches, scaled to unit variance.

    The eigenvectors of the covariance of all 2x2 patches are divided by the root of their eigenvalues plus `epsilon`.
    """
    patches = F.unfold(images.double(), PATCH).transpose(1, 2).flatten(0, 1)  # (patches, 4C)
    centered = patches - patches.mean(0)
    values, vectors = torch.linalg.eigh(centered.T @ centered / len(patches))
    filters = vectors.T / (values.clamp(min=0) + epsilon).sqrt()[:, None]
    signs = filters.gather(1, filters.abs().argmax(1, keepdim=True)).sign()  # the sign of an eigenvector is arbitrary
    filters = (filters * signs).flip(0)  # largest eigenvalue first
    return torch.cat([filters, -filters]).view(-1, images.shape[1], PATCH, PATCH).to(images.dtype)


class WhiteningStem(nn.Module):
    """A frozen 2x2 convolution without padding, and a bias that is trained."""

    weight: Tensor

    def __init__(self, channels: int) -> None:
        super().__init__()
        count = 2 * channels * PATCH * PATCH
        self.register_buffer("weight", torch.randn(count, channels, PATCH, PATCH) / (channels * PATCH))
        self.bias = nn.Parameter(torch.zeros(count))

    def forward(self, images: Tensor) -> Tensor:
        """Map (B, C, H, W) to (B, 8C, H - 1, W - 1)."""
        return F.conv2d(images, self.weight.to(images.dtype), self.bias)


class Group(nn.Module):
    """A convolution that halves the map, and two more with a shortcut around them."""

    def __init__(self, before: int, wide: int, mid: int, kernels: tuple[int, int, int]) -> None:
        super().__init__()
        first, second, third = kernels
        self.down = nn.Sequential(
            identity_convolution(before, wide, first), nn.MaxPool2d(2), nn.BatchNorm2d(wide), nn.SiLU()
        )
        self.rest = nn.Sequential(
            identity_convolution(wide, mid, second),
            nn.BatchNorm2d(mid),
            nn.SiLU(),
            identity_convolution(mid, wide, third),
            nn.BatchNorm2d(wide),
            nn.SiLU(),
        )

    def forward(self, maps: Tensor) -> Tensor:
        """Map (B, C, H, W) to (B, wide, H / 2, W / 2)."""
        maps = self.down(maps)
        out: Tensor = maps + self.rest(maps)
        return out


class EvenConvolution(nn.Conv2d):
    """A convolution with an even kernel that keeps the size: zeros are added only at the right and bottom."""

    def forward(self, input: Tensor) -> Tensor:
        """Map (B, C, H, W) to (B, D, H, W)."""
        padding = self.kernel_size[0] - 1
        return super().forward(F.pad(input, (0, padding, 0, padding)))


def identity_convolution(before: int, after: int, kernel: int) -> nn.Conv2d:
    """Build a convolution of the same size without a bias, whose first filters copy the first channels."""
    if kernel % 2:
        layer = nn.Conv2d(before, after, kernel, padding=kernel // 2, bias=False)
    else:
        layer = EvenConvolution(before, after, kernel, bias=False)
    with torch.no_grad():
        same, middle = min(before, after), kernel // 2 if kernel % 2 else 0
        layer.weight[:same] = 0
        layer.weight[range(same), range(same), middle, middle] = 1
    return layer


class MaxPlusMean(nn.Module):
    """The sum of the maximum and the mean of each channel, scaled."""

    def forward(self, maps: Tensor) -> Tensor:
        """Map (B, C, H, W) to (B, C)."""
        return (maps.amax((2, 3)) + maps.mean((2, 3))) * SCALE
