"""The settings to search over, from words such as `method.weight=0.1:2:log` and `method.gamma=0.5,1,2`."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ...errors import OptionError

POINTS = 5
"""Values of a range on a grid, where no number is given."""
HELP = "write NAME=LOW:HIGH, NAME=LOW:HIGH:log, NAME=LOW:HIGH:7 (points of a grid) or NAME=A,B,C"
FORBIDDEN = ("name", "seed", "scale", "changes", "oracle", "after", "inherit", "log", "devices", "nodes")
"""Settings that say what a run is or where it is executed: one of their values is not better than another."""


@dataclass(frozen=True)
class Setting:
    """One setting and its possible values: a list, or a range of numbers."""

    name: str
    choices: tuple[str, ...] = ()
    """Words for the command line; empty for a range."""
    low: float = 0.0
    high: float = 0.0
    log: bool = False
    whole: bool = False
    """Whether a range has whole numbers only."""
    points: int = POINTS

    def grid(self) -> tuple[str, ...]:
        """The words of its values on a grid.

        Example:
            >>> parse_setting("method.weight=0.1:10:log:3").grid()
            ('0.1', '1', '10')
        """
        if self.choices:
            return self.choices
        low, high = (math.log(self.low), math.log(self.high)) if self.log else (self.low, self.high)
        steps = [low + (high - low) * place / max(1, self.points - 1) for place in range(self.points)]
        values = [math.exp(step) if self.log else step for step in steps]
        return tuple(dict.fromkeys(self.word(value) for value in values))

    def word(self, value: float) -> str:
        """A number of the range as a word for the command line; it is rounded to ten digits."""
        return str(round(value)) if self.whole else f"{value:.10g}"


def parse_setting(text: str) -> Setting:
    """Read one setting.

    Example:
        >>> parse_setting("method.gamma=0.5,1,2").choices
        ('0.5', '1', '2')
    """
    name, equals, values = text.partition("=")
    if not equals or not name or not values:
        raise OptionError(f"--over {text!r} is no setting with values: {HELP}.")
    if name in FORBIDDEN:
        raise OptionError(f"--over {name} cannot be searched over: it does not change how a network is trained.")
    if ":" not in values:
        choices = tuple(values.split(","))
        if "" in choices or len(set(choices)) < len(choices):
            raise OptionError(f"--over {text!r} has an empty value or one twice: {HELP}.")
        return Setting(name, choices)
    low, high, *rest = values.split(":")
    points = [word for word in rest if word != "log"]
    try:
        setting = Setting(
            name,
            low=float(low),
            high=float(high),
            log="log" in rest,
            whole=low.lstrip("-").isdigit() and high.lstrip("-").isdigit(),
            points=int(points[0]) if points else POINTS,
        )
    except ValueError as error:
        raise OptionError(f"--over {text!r} is no range of numbers: {HELP}.") from error
    if len(points) > 1 or setting.points < 2 or not -math.inf < setting.low < setting.high < math.inf:
        raise OptionError(f"--over {text!r} is no range from a smaller number to a larger one: {HELP}.")
    if setting.log and setting.low <= 0:
        raise OptionError(f"--over {text!r} has a logarithm of {setting.low:g}: start above 0.")
    return setting


def parse_space(words: Sequence[str]) -> tuple[Setting, ...]:
    """Read all settings."""
    space = tuple(map(parse_setting, words))
    if not space:
        raise OptionError("--over names no setting, for instance: --over method.weight=0.1:2:log method.gamma=0.5,1,2.")
    names = [setting.name for setting in space]
    if len(set(names)) < len(names):
        raise OptionError(f"--over names {max(names, key=names.count)} twice: give each setting once.")
    return space
