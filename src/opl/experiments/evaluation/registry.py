"""Every protocol of `opl evaluate RUN PROTOCOL`: what it does, its settings, and where it lives. No torch in here."""

from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

from ...errors import OptionError, did_you_mean
from ..radius import parse_radius


class Protocol(NamedTuple):
    """A measure of a finished run: a function of its folder, and of settings where there are some."""

    function: str
    """`module:name` in this package; called as `evaluate(folder)` or `evaluate(folder, several_settings)`."""
    does: str
    writes: str = ""
    """The arrays of the run that it writes, `test` for `test.npz`; empty for a protocol that writes a measure."""
    settings: str = ""
    """`module:name` of the dataclass of its settings; its fields are flags."""
    several: str = ""
    """A field of the settings that may be given several times at once."""
    parse: Callable[[str], Any] = int
    """From a word to a value of that field."""

    def load(self) -> Callable[..., dict[str, Any]]:
        """The function itself."""
        function: Callable[..., dict[str, Any]] = _load(self.function)
        return function

    def settings_type(self) -> type[Any]:
        """The dataclass of its settings."""
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
    "attack": Protocol(
        "attack.evaluate:evaluate_attacks",
        "accuracy under FGSM, PGD and AutoAttack (measures/)",
        settings="attack.settings:Attack",
        several="eps",
        parse=parse_radius,
    ),
}


def protocol(name: str) -> Protocol:
    """The protocol of that name; otherwise the nearest name."""
    if name not in PROTOCOLS:
        raise OptionError(did_you_mean("protocol", name, PROTOCOLS))
    return PROTOCOLS[name]


def protocol_of(arrays: str) -> str:
    """The name of the protocol that writes some arrays of a run.

    Example:
        >>> protocol_of("test")
        'geometry'
    """
    return next(name for name, each in PROTOCOLS.items() if each.writes == arrays)


def _load(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(import_module(f".{module}", __package__), name)
