"""VGG-11 and pre-activation ResNet-18 rescaled by NeuralScale to a parameter budget (table S2)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ..._support.ranges import Positive, check_settings
from ..types import Model
from ..widths import FIT, SCALING, PowerLaw, ScaledNetwork, Widths, rebuild, stored_widths, uniform_widths
from .gates import add_gates
from .network import Network
from .preact_resnet import PreActResNet18
from .vgg import Vgg11

Source = Literal["uniform", "stored", "search"]


@dataclass(frozen=True)
class NeuralScale(Model):
    """A network with as many parameters as its published widths times `ratio` have.

    The widths are all multiplied by the ratio (`uniform`), those of the published fits (`stored`), or by the power laws
    that the run of the recipe's `after` has found (`search`); without such a run, `search` is uniform.
    """

    network: ScaledNetwork = "vgg11"
    ratio: Positive = 1.0
    """The parameter budget: that of the network with all published widths multiplied by this."""
    source: Source = "stored"
    gates: bool = False
    """Whether every batch norm is followed by gates, which a search needs."""

    def build(self, channels: int, num_classes: int) -> Network:
        """Build the module with newly initialized weights."""
        check_settings(self, "model.")
        if self.source == "stored":
            return self._build(stored_widths(self.network, self.ratio, num_classes, channels), channels, num_classes)
        return self._build(uniform_widths(self.network, self.ratio), channels, num_classes)

    def after(self, result: Mapping[str, Any]) -> Model:
        """The network by the power laws that a search has found."""
        if self.source != "search" or FIT not in result:
            return self
        law = PowerLaw(tuple(result[FIT]["alpha"]), tuple(result[FIT]["beta"]))
        found = result[SCALING]

        def widths(channels: int, num_classes: int) -> Widths:
            return rebuild(law, self.network, self.ratio, num_classes, channels)

        return _Resized(self, widths, (*map(tuple, found["history"]), tuple(found["widths"])))

    def rebuilt(self, result: Mapping[str, Any]) -> Model:
        """The network of a finished run."""
        found = result[SCALING]
        return _Resized(self, lambda *_: tuple(found["widths"]), tuple(map(tuple, found["history"])))

    def _build(self, widths: Widths, channels: int, num_classes: int, history: tuple[Widths, ...] = ()) -> Network:
        settings = {"vgg11": Vgg11, "resnet18": PreActResNet18}[self.network](widths)
        model = settings.build(channels, num_classes)
        if self.gates:
            add_gates(model)
        named = {"network": self.network, "widths": list(widths), "history": [list(each) for each in history]}
        model.facts = {SCALING: named}
        return model


@dataclass(frozen=True)
class _Resized(Model):
    """The same settings with widths that a run has found."""

    settings: NeuralScale
    widths: Callable[[int, int], Widths]
    history: tuple[Widths, ...]
    """The widths of the networks from which these were found, from the first search on."""

    def build(self, channels: int, num_classes: int) -> Network:
        """Build the module with newly initialized weights."""
        return self.settings._build(self.widths(channels, num_classes), channels, num_classes, self.history)
