"""VGG-11 and pre-activation ResNet-18 rescaled by NeuralScale to a parameter budget (table S2)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from ..._ranges import Range, check_settings
from ..types import Model
from ..widths import FIT, SCALING, PowerLaw, ScaledNetwork, Widths, rebuild, stored_widths, uniform_widths
from .network import Network
from .preact_resnet import PreActResNet18
from .vgg import Vgg11

Source = Literal["uniform", "stored", "search"]
NETWORKS: dict[str, type[Vgg11] | type[PreActResNet18]] = {"vgg11": Vgg11, "resnet18": PreActResNet18}


@dataclass(frozen=True)
class NeuralScale(Model):
    """A network with as many parameters as its published widths times `ratio` have.

    The widths are all multiplied by the ratio (`uniform`), those of the published fits (`stored`), or by the power laws
    that the run of the recipe's `after` has found (`search`); without such a run, `search` is uniform.
    """

    network: ScaledNetwork = "vgg11"
    ratio: Annotated[float, Range(0, 8, above=True)] = 1.0
    """The parameter budget: that of the network with all published widths multiplied by this."""
    source: Source = "stored"
    gates: bool = False
    """Whether every batch norm is followed by gates, by which a search removes filters."""

    def build(self, channels: int, num_classes: int) -> Network:
        """Build the module with newly initialized weights."""
        check_settings(self, "model.")
        if self.source == "stored":
            return self.resize(stored_widths(self.network, self.ratio, num_classes, channels), channels, num_classes)
        return self.resize(uniform_widths(self.network, self.ratio), channels, num_classes)

    def after(self, result: Mapping[str, Any]) -> Model:
        """The network by the power laws that a search has found."""
        if self.source != "search" or FIT not in result:
            return self
        law = PowerLaw(tuple(result[FIT]["alpha"]), tuple(result[FIT]["beta"]))
        found = result[SCALING]
        return Searched(self, law, (*map(tuple, found["history"]), tuple(found["widths"])))

    def rebuilt(self, result: Mapping[str, Any]) -> Model:
        """The network of a finished run, by its widths."""
        return NETWORKS[self.network](tuple(result[SCALING]["widths"]), self.gates)

    def resize(self, widths: Widths, channels: int, num_classes: int, history: tuple[Widths, ...] = ()) -> Network:
        """Build the network with given widths; `history` has those of the networks that were searched for them."""
        model = NETWORKS[self.network](widths, self.gates).build(channels, num_classes)
        named = {"network": self.network, "widths": list(widths), "history": [list(each) for each in history]}
        model.facts = {SCALING: named}
        return model


@dataclass(frozen=True)
class Searched(Model):
    """A network of `NeuralScale` by the power laws of a search; not a setting of recipes, which name the search."""

    settings: NeuralScale
    law: PowerLaw
    history: tuple[Widths, ...]
    """The widths of the networks that were searched, from the first on."""

    def build(self, channels: int, num_classes: int) -> Network:
        """Build the module with newly initialized weights."""
        widths = rebuild(self.law, self.settings.network, self.settings.ratio, num_classes, channels)
        return self.settings.resize(widths, channels, num_classes, self.history)
