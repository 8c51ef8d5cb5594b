"""Ranges of settings, written in the type of a field, and one check of all fields of a settings dataclass. No torch."""

import dataclasses
import math
import types
import typing
from functools import cache
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

from .errors import OptionError, did_you_mean

LARGEST_COUNT = 2**31 - 1
LARGEST_SEED = 2**63 - 1


class Range(NamedTuple):
    """The finite numbers from `low` to `high`; `above` excludes the lowest and `below` the highest."""

    low: float = -math.inf
    high: float = math.inf
    above: bool = False
    below: bool = False

    def allows(self, value: float) -> bool:
        """Whether a number is in the range."""
        low = value > self.low if self.above else value >= self.low
        high = value < self.high if self.below else value <= self.high
        return low and high

    def describe(self, value: float) -> str:
        """Say what a number must be."""
        if self.high < math.inf and not self.above and not self.below:
            return f"between {self.low:g} and {self.high:,}"
        low = f"{'above' if self.above else 'of at least'} {self.low:g}"
        high = "" if self.high == math.inf else f" and {'below' if self.below else 'at most'} {self.high:,}"
        return low + high


class Multiple(NamedTuple):
    """The multiples of `step`, plus `rest`, from `least` to `most`."""

    step: int
    least: int
    rest: int = 0
    most: int = 4096

    def allows(self, value: int) -> bool:
        """Whether a number is in the series."""
        return self.least <= value <= self.most and value % self.step == self.rest

    def describe(self, value: int) -> str:
        """Say what a number must be, with the nearest allowed numbers."""
        below = min(max(self.least, value - (value - self.rest) % self.step), self.most - self.step)
        plus = f"n + {self.rest}" if self.rest else "n"
        near = f"such as {below} or {below + self.step}"
        return f"between {self.least} and {self.most:,} of the form {self.step}{plus}, {near}"


class OneOf(NamedTuple):
    """One of some numbers."""

    values: tuple[int, ...]

    def allows(self, value: int) -> bool:
        """Whether a number is one of them."""
        return value in self.values

    def describe(self, value: int) -> str:
        """Say what a number must be."""
        return f"out of {', '.join(map(str, self.values))}"


class FolderName(NamedTuple):
    """A word that names a folder inside another folder: it can neither lead out of it nor be hidden."""

    or_empty: bool = False

    def allows(self, value: str) -> bool:
        """Whether a word is such a name."""
        if not value:
            return self.or_empty
        wrong = any(not letter.isprintable() or letter in '/\\:*?"<>|' for letter in value)
        wrong = wrong or value != value.strip() or value.startswith(".")
        return not wrong and len(value.encode(errors="replace")) <= 200

    def describe(self, value: str) -> str:
        """Say what a name is."""
        return "of letters, digits, '-', '_' and '.' that does not begin with a dot, because it names a folder"


Rule = Range | Multiple | OneOf | FolderName
"""What the values of a field must satisfy besides its type; `describe` is the end of the error message."""

Positive = Annotated[float, Range(0, above=True)]
NotNegative = Annotated[float, Range(0)]
Fraction = Annotated[float, Range(0, 1)]
FractionBelowOne = Annotated[float, Range(0, 1, below=True)]
PositiveFraction = Annotated[float, Range(0, 1, above=True)]
Count = Annotated[int, Range(1, LARGEST_COUNT)]
CountOrZero = Annotated[int, Range(0, LARGEST_COUNT)]
Width = Annotated[int, Range(1, 4096)]
Pixels = Annotated[int, Range(1, 4096)]
Seed = Annotated[int, Range(0, LARGEST_SEED)]
SeedOrOfRun = Annotated[int, Range(-1, LARGEST_SEED)]
Name = Annotated[str, FolderName()]


def check_settings(settings: Any, inside: str = "") -> None:
    """Raise `OptionError` for the first field of the wrong type or out of its range, nested settings included.

    Args:
        settings: an instance of a dataclass.
        inside: the prefix of names in messages, such as `optimizer.`.

    Example:
        >>> from opl.optim import SGD
        >>> check_settings(SGD(momentum=1.0), "optimizer.")
        Traceback (most recent call last):
        opl.errors.OptionError: optimizer.momentum is 1.0 but must be a number of at least 0 and below 1.
    """
    hints = _hints(settings.__class__)
    for field in dataclasses.fields(settings):
        name = field.name.replace("_", "-") if inside == "--" else field.name
        _check(getattr(settings, field.name), hints[field.name], f"{inside}{name}")


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return typing.get_type_hints(kind, include_extras=True)


def _check(value: Any, hint: Any, name: str) -> None:
    origin, options = get_origin(hint), get_args(hint)
    if origin is Annotated:
        _check(value, options[0], name)
        for rule in options[1:]:
            if isinstance(rule, Rule) and not rule.allows(value):
                raise OptionError(f"{name} is {value!r} but must be {_NOUNS[options[0]]} {rule.describe(value)}.")
    elif origin in (Union, types.UnionType):
        _check_union(value, options, name)
    elif origin is Literal:
        if value not in options or isinstance(value, bool) != isinstance(options[0], bool):
            raise OptionError(did_you_mean(name, value, map(str, options)))
    elif origin is tuple:
        _check_tuple(value, options, name)
    elif dataclasses.is_dataclass(value):
        check_settings(value, f"{name}.")
    else:
        _check_plain(value, hint, name)


def _check_union(value: Any, options: tuple[Any, ...], name: str) -> None:
    if value is None and type(None) in options:
        return
    given = [option for option in options if option is not type(None)]
    kinds = [option for option in given if option in type(value).__mro__]
    _check(value, (kinds or given)[0], name)


def _check_tuple(value: Any, options: tuple[Any, ...], name: str) -> None:
    if not isinstance(value, tuple):
        raise OptionError(f"{name} is {value!r} but must be a list of values.")
    several = len(options) == 2 and options[1] is Ellipsis
    if not several and len(value) != len(options):
        raise OptionError(f"{name} has {len(value)} values but must have {len(options)}.")
    for index, element in enumerate(value):
        _check(element, options[0] if several else options[index], f"{name}.{index}")


def _check_plain(value: Any, hint: Any, name: str) -> None:
    plain: dict[Any, tuple[type, ...]] = {float: (int, float), int: (int,), bool: (bool,), str: (str,)}
    allowed = plain.get(hint)
    if allowed is None and hint in type(value).__mro__:  # a path, for instance
        return
    if allowed is None:
        raise OptionError(f"{name} is {value!r} but must be a group of settings: use the recipe's.")
    if not isinstance(value, allowed) or (isinstance(value, bool) and hint is not bool):
        raise OptionError(f"{name} is {value!r} but must be {_NOUNS[hint]}.")
    if isinstance(value, int | float) and hint is float and not _is_finite(value):
        raise OptionError(f"{name} is {value!r} but must be a finite number.")
    if isinstance(value, str) and "\0" in value:
        raise OptionError(f"{name} is {value!r} but must not contain a null character.")


_NOUNS = {float: "a number", int: "a whole number", bool: "true or false", str: "a word"}


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number beyond all floating-point numbers
        return False
