"""Differences between two sets of settings, as dotted names. Does not import torch."""

from typing import Any


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
