"""Labels as files hold them, converted to class ids."""

from collections.abc import Sequence
from typing import Any

import numpy as np

Numbers = np.ndarray[Any, np.dtype[np.int64]]


def class_ids(values: Sequence[Any], names: Sequence[str] = ()) -> tuple[Numbers, tuple[str, ...]]:
    """Convert labels to integers; text is numbered as in `names`, or alphabetically if there are none.

    Returns:
        The ids, and the names.

    Raises:
        ValueError: a label is neither a whole number nor text, or is not among the names.

    Example:
        >>> class_ids(["cat", "ant", "cat"])
        (array([1, 0, 1]), ('ant', 'cat'))
    """
    kinds = {type(value) for value in values}
    if strange := [kind for kind in kinds if not issubclass(kind, str | int)]:
        example = next(value for value in values if type(value) is strange[0])
        raise ValueError(f"the label {_short(example)} is neither a whole number nor text")
    if str in kinds and len(kinds) > 1:
        raise ValueError("some labels are numbers and others are text")
    if str in kinds:
        names = tuple(names) or tuple(sorted(set(values)))
        number = {name: place for place, name in enumerate(names)}
        if unknown := set(values) - set(number):
            raise ValueError(f"the label {_short(min(unknown))} is not among its {len(names)} class names")
        values = [number[value] for value in values]
    try:
        return np.asarray(values, dtype=np.int64), tuple(names)
    except OverflowError as error:
        raise ValueError("a label has more than 64 bits") from error


def _short(value: Any) -> str:
    return f"{value!r:.40} of the type {type(value).__name__}" if not isinstance(value, str) else f"{value!r:.60}"
