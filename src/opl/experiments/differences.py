"""Where two settings differ, as dotted names. No torch in here."""

from typing import Any


def differences(one: dict[str, Any], other: dict[str, Any], inside: str = "") -> list[str]:
    """The dotted names of what is not equal, or only in one of them.

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
