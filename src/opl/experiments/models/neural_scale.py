"""VGG-11 and pre-activation ResNet-18 with any widths, and NeuralScale, which rescales them to a budget (table S2)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import torch
from torch import Tensor, nn

from ..._ranges import Range, Width, check_settings
from ...errors import OptionError
from ..types import Model
from ..widths import (
    ARCHITECTURES,
    FIT,
    SCALING,
    PowerLaw,
    ScaledNetwork,
    Widths,
    rebuild,
    stored_widths,
    uniform_widths,
)
from .network import Network, conv_chain, draw_convolutions, he_normal_fan_out, with_pooling
from .residual import convolution


@dataclass(frozen=True)
class Vgg11(Model):
    """Eight 3x3 convolutions with batch norm and five max-pools, which reduce 32x32 to 1x1.

    The last width is the number of features, which are non-negative. Images must be at least 32 pixels on each side; if
    more than one position remains, the positions are averaged.
    """

    widths: tuple[Width, ...] = ARCHITECTURES["vgg11"].base
    gates: bool = False
    """Whether every batch norm is followed by gates, with which a search removes filters."""

    def build(self, channels: int, num_classes: int) -> Network:
        """Build the module with NeuralScale's initialization: batch norm weights of 0.5 and a small classifier."""
        if len(self.widths) != 8:
            raise OptionError(f"model.widths has {len(self.widths)} numbers: Vgg11 needs 8, one per convolution.")
        trunk = conv_chain(channels, self.widths, pool_after=(1, 2, 4, 6, 8), bias=True)
        model = Network(with_pooling({"trunk": trunk}), self.widths[-1], num_classes)
        draw_convolutions(model, he_normal_fan_out)
        for part in model.modules():
            if isinstance(part, nn.BatchNorm2d):
                nn.init.constant_(part.weight, 0.5)
            elif isinstance(part, nn.Linear):
                nn.init.normal_(part.weight, std=0.01)
                nn.init.zeros_(part.bias)
        if self.gates:
            add_gates(model)
        return model


@dataclass(frozen=True)
class PreActResNet18(Model):
    """A 3x3 convolution, eight pre-activation blocks of two, and a last batch norm without ReLU before pooling.

    The last width is the number of features, which have both signs.
    """

    widths: tuple[Width, ...] = ARCHITECTURES["resnet18"].base
    """The filters of the first convolution, then of the two convolutions of each block."""
    gates: bool = False
    """Whether every batch norm is followed by gates, with which a search removes filters."""

    def build(self, channels: int, num_classes: int) -> Network:
        """Build the module with NeuralScale's initialization: He-normal by fan-out; the classifier by PyTorch."""
        shape = ARCHITECTURES["resnet18"]
        if len(self.widths) != len(shape.base):
            raise OptionError(
                f"model.widths has {len(self.widths)} numbers: PreActResNet18 needs {len(shape.base)}, one per "
                "convolution outside of shortcuts."
            )
        parts: dict[str, nn.Module] = {"conv1": convolution(channels, self.widths[0], 3)}
        for block in range(len(self.widths) // 2):
            stride = 2 if block in shape.strided else 1
            before, middle, width = self.widths[2 * block : 2 * block + 3]
            parts[f"block{block + 1}"] = PreActBlock(before, middle, width, stride)
        parts["bn"] = nn.BatchNorm2d(self.widths[-1])
        model = Network(with_pooling(parts), self.widths[-1], num_classes)
        draw_convolutions(model, he_normal_fan_out)
        if self.gates:
            add_gates(model)
        return model


class PreActBlock(nn.Module):
    """Two 3x3 convolutions, each after batch norm and ReLU; the shortcut is 1x1 on the activated input, or identity."""

    def __init__(self, before: int, middle: int, width: int, stride: int) -> None:
        super().__init__()
        self.bn1, self.conv1 = nn.BatchNorm2d(before), convolution(before, middle, 3, stride)
        self.bn2, self.conv2 = nn.BatchNorm2d(middle), convolution(middle, width, 3)
        self.relu = nn.ReLU()
        self.shortcut = convolution(before, width, 1, stride) if stride > 1 or before != width else None

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, before, H, W) to (B, width, H / stride, W / stride)."""
        active = self.relu(self.bn1(x))
        residual: Tensor = self.conv2(self.relu(self.bn2(self.conv1(active))))
        return residual + (x if self.shortcut is None else self.shortcut(active))


class Gate(nn.Module):
    """A factor of 1 or 0 for every channel; no parameter, so that an optimizer does not change it.

    While `measuring`, the backward pass adds `(gate * dL/dgate) ** 2` of the batch to the importance of every filter.
    Both are buffers, so a checkpoint has them.
    """

    open: Tensor
    importance: Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        self.register_buffer("open", torch.ones(width))
        self.register_buffer("importance", torch.zeros(width))
        self.measuring = False

    def forward(self, x: Tensor) -> Tensor:
        """Multiply the channels of (B, C, H, W)."""
        gate = self.open
        if self.measuring and self.training and torch.is_grad_enabled():
            gate = gate.clone().requires_grad_()
            gate.register_hook(self._add)  # type: ignore[no-untyped-call]
        return x * gate.to(x.dtype)[:, None, None]  # keeps half precision

    @property
    def width(self) -> int:
        """The number of remaining filters."""
        return int(self.open.sum())

    def _add(self, gradient: Tensor) -> None:
        self.importance += (self.open * gradient).square()


def add_gates(model: nn.Module) -> None:
    """Add a gate after every batch norm, in place."""
    for part in list(model.modules()):
        for name, child in list(part.named_children()):
            if isinstance(child, nn.BatchNorm2d):
                part.set_submodule(name, nn.Sequential(child, Gate(child.num_features)))


def gates_of(model: nn.Module) -> list[Gate]:
    """Return the gates of a model, in the order of its layers."""
    return [part for part in model.modules() if isinstance(part, Gate)]


Source = Literal["uniform", "stored", "search"]
NETWORKS: dict[str, type[Vgg11] | type[PreActResNet18]] = {"vgg11": Vgg11, "resnet18": PreActResNet18}


@dataclass(frozen=True)
class NeuralScale(Model):
    """A network with as many parameters as it has with the published widths times `ratio`.

    The widths are the published ones times the ratio (`uniform`), or follow the published fits (`stored`) or the power
    laws that the run of the recipe's `after` has fitted (`search`); without such a run, `search` is uniform.
    """

    network: ScaledNetwork = "vgg11"
    ratio: Annotated[float, Range(0, 8, above=True)] = 1.0
    """The parameter budget is the size of the network with all published widths multiplied by this."""
    source: Source = "stored"
    gates: bool = False
    """Whether every batch norm is followed by gates, with which a search removes filters."""

    def build(self, channels: int, num_classes: int) -> Network:
        """Build the module with newly initialized weights."""
        check_settings(self, "model.")
        if self.source == "stored":
            return self.resize(stored_widths(self.network, self.ratio, num_classes, channels), channels, num_classes)
        return self.resize(uniform_widths(self.network, self.ratio), channels, num_classes)

    def after(self, result: Mapping[str, Any]) -> Model:
        """Return the network with the widths of the power laws that a search has fitted."""
        if self.source != "search" or FIT not in result:
            return self
        law = PowerLaw(tuple(result[FIT]["alpha"]), tuple(result[FIT]["beta"]))
        searched = result[SCALING]
        return Searched(self, law, (*map(tuple, searched["history"]), tuple(searched["widths"])))

    def rebuilt(self, result: Mapping[str, Any]) -> Model:
        """Return the network of a finished run, by its widths."""
        return NETWORKS[self.network](tuple(result[SCALING]["widths"]), self.gates)

    def resize(self, widths: Widths, channels: int, num_classes: int, history: tuple[Widths, ...] = ()) -> Network:
        """Build the network with these widths; `history` has the widths of the networks that were searched before."""
        model = NETWORKS[self.network](widths, self.gates).build(channels, num_classes)
        scaling = {"network": self.network, "widths": list(widths), "history": [list(searched) for searched in history]}
        model.facts = {SCALING: scaling}
        return model


@dataclass(frozen=True)
class Searched(Model):
    """A network of `NeuralScale` with the power laws of a search; recipes name the search instead."""

    settings: NeuralScale
    law: PowerLaw
    history: tuple[Widths, ...]
    """The widths of the networks that were searched, in order."""

    def build(self, channels: int, num_classes: int) -> Network:
        """Build the module with newly initialized weights."""
        widths = rebuild(self.law, self.settings.network, self.settings.ratio, num_classes, channels)
        return self.settings.resize(widths, channels, num_classes, self.history)
