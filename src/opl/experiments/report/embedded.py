"""Values for the scripts of the page, as JSON that is safe inside a script element."""

import json
import math
from typing import Any

from .markup import Markup, tag

DIGITS = 5


def embed(key: str, values: Any) -> Markup:
    """An element with values, which scripts find by its id."""
    return tag("script", Markup(embed_json(values)), type="application/json", id=key)


def embed_json(values: Any) -> str:
    """JSON that is safe inside a script element, whatever its content.

    Example:
        >>> embed_json({"name": "</script>", "loss": float("nan")})
        '{"name":"\\\\u003c/script>","loss":null}'
    """
    return json.dumps(_plain(values), separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def _plain(value: Any) -> Any:
    """Plain JSON values; floats have five significant digits, and None replaces NaN and infinity."""
    if isinstance(value, dict):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None
    return value
