"""Differences between two sets of settings, as dotted names. Does not import torch."""

from collections.abc import Collection
from typing import Any

FREE = frozenset({"seed", "log", "data.root", "data.workers", "timeout", "checkpoint_every"})
"""Settings of a recipe that a run may choose: it is still a run of that recipe."""


def differences(one: dict[str, Any], other: dict[str, Any], inside: str = "") -> list[str]:
    """Return the dotted names of entries that differ or are present in only one of the two.

    Example:
        >>> differences({"epochs": 1, "data": {"val": 5}}, {"epochs": 1, "data": {"val": 7}})
        ['data.val']
    """
    found = []
    for name in sorted({*one, *other}):
        ours, theirs = one.get(name), other.get(name)
        if isinstance(ours, dict) and isinstance(theirs, dict):
            found += differences(ours, theirs, f"{inside}{name}.")
        elif ours != theirs:
            found.append(f"{inside}{name}")
    return found


def describe_changes(settings: dict[str, Any], recipe: dict[str, Any], ignored: Collection[str] = ()) -> list[str]:
    """What was set otherwise than in the recipe, such as `epochs 1 (recipe: 10)`.

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
