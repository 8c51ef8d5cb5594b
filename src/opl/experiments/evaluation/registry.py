"""The protocols of `opl evaluate RUN PROTOCOL`: descriptions, settings and locations. Does not import torch."""

from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

from ...errors import OptionError, did_you_mean
from ..radius import parse_radius


class Protocol(NamedTuple):
    """An evaluation of a finished run: a function of its folder, and of settings if the protocol has any."""

    function: str
    """`module:name` in this package; called as `evaluate(folder)` or `evaluate(folder, list_of_settings)`."""
    does: str
    writes: str = ""
    """The arrays of the run that it writes, such as `test` for `test.npz`; empty for protocols that write a measure."""
    settings: str = ""
    """`module:name` of the dataclass of its settings, whose fields become command-line flags."""
    several: str = ""
    """A field of the settings that accepts several values at once."""
    parse: Callable[[str], Any] = int
    """Parses a command-line argument as a value of that field."""

    def load(self) -> Callable[..., dict[str, Any]]:
        """Import the function."""
        function: Callable[..., dict[str, Any]] = _load(self.function)
        return function

    def settings_type(self) -> type[Any]:
        """Import the dataclass of the settings."""
        kind: type[Any] = _load(self.settings)
        return kind


PROTOCOLS = {
    "geometry": Protocol(
        "predict:evaluate_geometry", "s and d of the test features, and predictions for figures (test.npz)", "test"
    ),
    "novel": Protocol("predict:evaluate_novel", "the same of classes that the run never saw (novel.npz)", "novel"),
    "noise": Protocol("label_noise:evaluate_label_noise", "which wrong labels were memorized (measures/)"),
    "episodes": Protocol(
        "few_shot.evaluate:evaluate_episodes",
        "few-shot episodes of classes that the run never saw (measures/)",
        settings="few_shot.settings:FewShot",
        several="shot",
    ),
    "selection": Protocol(
        "selection.evaluate:evaluate_selection",
        "episodes of Meta-Dataset on the features of a run and its family (measures/)",
        settings="selection.settings:Selection",
        several="target",
        parse=str,
    ),
    "attack": Protocol(
        "attack.evaluate:evaluate_attacks",
        "accuracy under FGSM, PGD and AutoAttack (measures/)",
        settings="attack.settings:Attack",
        several="eps",
        parse=parse_radius,
    ),
}


def protocol(name: str) -> Protocol:
    """Return the protocol with this name; the error for an unknown name suggests the closest one."""
    if name not in PROTOCOLS:
        raise OptionError(did_you_mean("protocol", name, PROTOCOLS))
    return PROTOCOLS[name]


def protocol_of(arrays: str) -> str:
    """Return the name of the protocol that writes these arrays of a run.

    Example:
        >>> protocol_of("test")
        'geometry'
    """
    return next(name for name, each in PROTOCOLS.items() if each.writes == arrays)


def _load(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(import_module(f".{module}", __package__), name)
