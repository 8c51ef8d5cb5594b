"""The types of the values in the JSON files of a run: a checksum shows that a file is complete, not that it is valid.

A value that is missing or null is accepted, because older versions wrote fewer values.
"""

from collections.abc import Mapping
from typing import Any

NUMBER = (int, float)
IMAGES = (int, list)  # the number of images, or their rows
CLASSES = FEATURES = 1 << 13  # the most classes and features
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


def check_arrays(arrays: Mapping[str, Any]) -> None:
    """Raise `ValueError` if charts of the arrays would take memory out of proportion to them.

    Charts count by label and by pair of classes, and take products of features: a label or a number of features that no
    data set or network has would allocate terabytes.
    """
    for name in ("labels", "top5"):
        classes = arrays.get(name)
        if classes is None or not classes.size or classes.dtype.kind not in "iuf":
            continue
        if not classes.max() < max(CLASSES, len(arrays.get("labels", classes).ravel())):
            raise ValueError(f"has the class {classes.max()} in {name!r}, which has {classes.size:,} values")
    for name, columns in (("features", FEATURES), ("similarity", CLASSES), ("top5", CLASSES), ("p5", CLASSES)):
        shape = () if name not in arrays else arrays[name].shape
        if len(shape) > 1 and max(shape[1:]) > columns:
            raise ValueError(f"has an array {name!r} of the shape {shape}")


def _check_numbers(numbers: Facts) -> None:
    _check(
        {name: "null" if value is None else value for name, value in numbers.items()}, dict.fromkeys(numbers, NUMBER)
    )


def _check(content: Facts, kinds: Mapping[str, type | tuple[type, ...]]) -> None:
    for name, kind in kinds.items():
        value = content.get(name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, kind)):
            raise ValueError(f"has {str(value)[:40]!r} as {name[:80]!r}")
