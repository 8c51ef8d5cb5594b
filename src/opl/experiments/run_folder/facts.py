"""The types of the values in the JSON files of a run: a checksum shows that a file is complete, not that it is valid.

A value that is missing or null is accepted, because older versions wrote fewer values.
"""

from collections.abc import Mapping
from typing import Any

NUMBER = (int, float)
IMAGES = (int, list)  # the number of images, or their rows
Facts = dict[str, Any]


def check_about(about: Facts) -> None:
    """Raise `ValueError` if the content of `recipe.json` is not valid."""
    _check(about, {"recipe": dict, "versions": dict, "machine": dict, "commit": str, "started": str})
    if not about.get("recipe"):
        raise ValueError("has no settings")
    texts, counts = ("name", "scale", "weights", "after"), ("seed", "epochs", "batch_size")
    _check(about["recipe"], dict.fromkeys(texts, str) | dict.fromkeys(counts, int))
    _check(
        about["recipe"], dict.fromkeys(("changes", "members"), list) | dict.fromkeys(("data", "model", "method"), dict)
    )


def check_splits(splits: Facts) -> None:
    """Raise `ValueError` if the content of `splits.json` is not valid."""
    _check(splits, {"class_names": list, "groups": list, "train": IMAGES, "val": IMAGES, "test": IMAGES})


def check_noise(noise: Facts) -> None:
    """Raise `ValueError` if the content of `noise.json` is not valid."""
    _check(noise, {"matrix": list, "rates": dict})
    _check_numbers(noise.get("rates") or {})


def check_result(result: Facts) -> None:
    """Raise `ValueError` if the content of `result.json` is not valid."""
    _check(result, {"epochs": int, "seconds": NUMBER, "selection": str, "start": str, "after": dict, "changes": list})
    _check_numbers({name: value for name, value in result.items() if "/" in name})


def check_measure(measure: Facts) -> None:
    """Raise `ValueError` if a measure is not valid."""
    _check(measure, {"numbers": dict, "settings": dict, "members": dict})
    _check_numbers(measure.get("numbers") or {})


def _check_numbers(numbers: Facts) -> None:
    _check(
        {name: "null" if value is None else value for name, value in numbers.items()}, dict.fromkeys(numbers, NUMBER)
    )


def _check(content: Facts, kinds: Mapping[str, type | tuple[type, ...]]) -> None:
    for name, kind in kinds.items():
        value = content.get(name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, kind)):
            raise ValueError(f"has {str(value)[:40]!r} as {name[:80]!r}")
