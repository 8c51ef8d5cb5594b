"""Settings as nested frozen dataclasses: conversion to and from JSON, and differences. Does not import torch."""

import dataclasses
import types
import typing
from collections.abc import Collection, Mapping
from functools import cache
from typing import Any, Union, get_args, get_origin

from ..errors import OptionError, did_you_mean

FREE = frozenset({"seed", "log", "data.root", "data.workers", "timeout", "checkpoint_every"})
"""Settings that a run may choose and still be a run of its recipe."""
_FAST = {"shift": 2, "alternate": True, "sizes": [[0.15, 20], [0.5, 24]]}
REMOVED: dict[str, dict[str, Any]] = {
    "Digits": {"test_fraction": 0.5},
    "FastCifar10": _FAST,
    "FastCifar100": _FAST,
    "Synthetic": {"per_new_class": 20},
    "SyntheticDomains": {"size": 32, "rows": 42, "balance_domains": False, "noise": 0.1},
    "SyntheticSource": {"classes": 6, "images": 16, "noise": 0.1},
}
"""Former settings, by kind, and the values that are now fixed: stored settings with these values can still be read."""


def to_json(value: Any) -> Any:
    """Convert a value made of dataclasses to plain JSON; each dataclass stores its class name as `kind`."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: to_json(getattr(value, field.name)) for field in dataclasses.fields(value)}
        return {"kind": type(value).__name__, **fields}
    if isinstance(value, tuple | list):
        return [to_json(item) for item in value]
    return value


Kinds = Mapping[type, tuple[type, ...]]
"""For each protocol in `types`, the dataclasses that implement it."""


def from_json(value: Any, kind: Any, kinds: Kinds | None = None) -> Any:
    """Rebuild a value from the output of `to_json`.

    Args:
        value: plain JSON.
        kind: the type that the value should have.
        kinds: the dataclasses that implement each protocol.

    Example:
        >>> from opl.optim import SGD
        >>> from_json(to_json(SGD(lr=0.2)), SGD).lr
        0.2
    """
    kinds = kinds or {}
    if isinstance(value, dict) and "kind" in value:
        known = {option.__name__: option for option in _dataclasses(kind, kinds)}
        if str(value["kind"]) not in known:
            raise OptionError(
                did_you_mean("kind", value["kind"], known) if known else "unexpected settings: remove them."
            )
        return _build(known[str(value["kind"])], value, kinds)
    if isinstance(value, list):
        options = [option for option in _options(kind) if get_origin(option) is tuple]
        inner = get_args(options[0])[0] if options and get_args(options[0]) else Any
        return tuple(from_json(item, inner, kinds) for item in value)
    return value


def _build(kind: type, value: dict[str, Any], kinds: Kinds) -> Any:
    hints, former = _hints(kind), REMOVED.get(kind.__name__, {})
    value = {name: item for name, item in value.items() if name not in former or item != former[name]}
    names = {field.name: field for field in dataclasses.fields(kind)}
    for name in value:
        if name != "kind" and name not in names:
            raise OptionError(did_you_mean(f"setting of {kind.__name__}", name, sorted(names)))
    for name, field in names.items():
        if name not in value and field.default is field.default_factory is dataclasses.MISSING:
            raise OptionError(f"the setting {name!r} of {kind.__name__} is missing: use the settings of a run.")
    return kind(**{name: from_json(item, hints[name], kinds) for name, item in value.items() if name != "kind"})


@cache
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _options(kind: Any) -> list[Any]:
    if get_origin(kind) in (Union, types.UnionType):
        return [option for part in get_args(kind) for option in _options(part)]
    return [kind]


def _dataclasses(kind: Any, kinds: Kinds) -> list[type]:
    options = [choice for option in _options(kind) for choice in kinds.get(option, (option,))]
    return [option for option in options if isinstance(option, type) and dataclasses.is_dataclass(option)]


def differences(first: dict[str, Any], second: dict[str, Any], inside: str = "") -> list[str]:
    """Return the dotted names of entries that differ or are present in only one of the two.

    Example:
        >>> differences({"epochs": 1, "data": {"val": 5}}, {"epochs": 1, "data": {"val": 7}})
        ['data.val']
    """
    names = []
    for name in sorted({*first, *second}):
        ours, theirs = first.get(name), second.get(name)
        if isinstance(ours, dict) and isinstance(theirs, dict):
            names += differences(ours, theirs, f"{inside}{name}.")
        elif ours != theirs:
            names.append(f"{inside}{name}")
    return names


def describe_changes(settings: dict[str, Any], recipe: dict[str, Any], ignored: Collection[str] = ()) -> list[str]:
    """Describe the settings that differ from the recipe, such as `epochs 1 (recipe: 10)`.

    Example:
        >>> describe_changes({"epochs": 1, "seed": 4}, {"epochs": 10, "seed": 0}, ignored={"seed"})
        ['epochs 1 (recipe: 10)']
    """
    names = [name for name in differences(settings, recipe) if name not in ignored]
    return [f"{name} {_value(settings, name)} (recipe: {_value(recipe, name)})" for name in names]


def _value(settings: dict[str, Any], name: str) -> str:
    value: Any = settings
    for part in name.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return "none" if value is None else str(value)
