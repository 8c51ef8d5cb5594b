"""The wide residual network of Madry et al. ("w32-10"): the variant of a wide ResNet in its code, as published."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

import torch.nn.functional as F
from torch import Tensor, nn

from ..._ranges import Range, check_settings
from ..types import Model
from .network import Network, draw_convolutions, he_normal_fan_out, with_pooling
from .residual import convolution, stages

SLOPE = 0.1  # of the leaky ReLU
EPS = 1e-3  # of batch norm


@dataclass(frozen=True)
class MadryResNet(Model):
    """Three stages of pre-activation units at the widths 16w, 32w, 64w; five units each and w = 10 as published.

    It differs from `WideResNet` in five ways: every image is normalized by its mean and std in the first layer, so
    that recipes set `normalize="none"`; the activation is a leaky ReLU of slope 0.1, so that some of the 64w features
    are slightly negative; shortcuts have no weights; only the first unit's shortcut takes the activated input; and
    weight decay applies only to the weights of convolutions and classifier.
    """

    units: Annotated[int, Range(1, 300)] = 5
    """Units per stage."""
    width: Annotated[int, Range(1, 64)] = 10
    """The widening factor w; 1 is the narrowest network."""

    def build(self, channels: int, num_classes: int) -> "KernelDecayNetwork":
        """Build the module with newly initialized weights: He-normal convolutions, a uniform classifier with bias 0."""
        check_settings(self, "model.")
        features = 64 * self.width
        parts: dict[str, nn.Module] = {"input": StandardizeEach(), "conv1": convolution(channels, 16, 3)}
        parts |= stages(ZeroPaddedUnit, 16, 16 * self.width, (self.units,) * 3)
        parts |= {"bn": nn.BatchNorm2d(features, EPS), "relu": nn.LeakyReLU(SLOPE)}
        model = KernelDecayNetwork(with_pooling(parts), features, num_classes)
        first = model.get_submodule("layer1.0")
        assert isinstance(first, ZeroPaddedUnit)
        first.activate_shortcut = True
        draw_convolutions(model, he_normal_fan_out)
        for name, parameter in model.fc.named_parameters():
            bound = math.sqrt(3 / features) if name == "weight" else 0.0
            nn.init.uniform_(parameter, -bound, bound)
        return model


class KernelDecayNetwork(Network):
    """A network whose optimizer decays the weights of convolutions and classifier, not biases and batch norms."""

    @property
    def param_options(self) -> Mapping[str, Mapping[str, float]]:
        """Weight decay 0 for every parameter that is a vector; see `opl.optim.HasParamOptions`."""
        return {name: {"weight_decay": 0.0} for name, parameter in self.named_parameters() if parameter.ndim == 1}


class ZeroPaddedUnit(nn.Module):
    """Two 3x3 convolutions, each after batch norm and leaky ReLU, with a shortcut that has no weights.

    If the width changes, the shortcut is the input, averaged over `stride` x `stride` pixels, between channels of
    zeros; otherwise it is the input itself. With `activate_shortcut` its input is activated first.
    """

    def __init__(self, before: int, width: int, stride: int) -> None:
        super().__init__()
        self.bn1, self.conv1 = nn.BatchNorm2d(before, EPS), convolution(before, width, 3, stride)
        self.bn2, self.conv2 = nn.BatchNorm2d(width, EPS), convolution(width, width, 3)
        self.relu = nn.LeakyReLU(SLOPE)
        self.stride, self.margin, self.activate_shortcut = stride, (width - before) // 2, False

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, before, H, W) to (B, width, H / stride, W / stride)."""
        active = self.relu(self.bn1(x))
        residual: Tensor = self.conv2(self.relu(self.bn2(self.conv1(active))))
        return residual + self._shortcut(active if self.activate_shortcut else x)

    def _shortcut(self, x: Tensor) -> Tensor:
        if self.stride > 1:
            x = F.avg_pool2d(x, self.stride, ceil_mode=True)
        return F.pad(x, (0, 0, 0, 0, self.margin, self.margin)) if self.margin else x


class StandardizeEach(nn.Module):
    """Subtract the mean of each image and divide by its std, over all pixels and channels, as TensorFlow does.

    The std counts as at least `1 / (255 sqrt(n))` for n values, so that a gray image becomes zeros.

    Example:
        >>> import torch
        >>> StandardizeEach()(torch.tensor([[[[0.25, 0.75]]]]))
        tensor([[[[-1.,  1.]]]])
    """

    def forward(self, images: Tensor) -> Tensor:
        """Normalize (B, C, H, W) images with pixels in [0, 1]."""
        least = 1 / (255 * math.sqrt(math.prod(images.shape[1:])))
        centered = images - images.mean((1, 2, 3), keepdim=True)
        variance = centered.square().mean((1, 2, 3), keepdim=True)
        return centered / variance.clamp(min=least**2).sqrt()
