"""Charts on the page: an element for each, and its values as JSON; `page.js` draws it when it comes into view."""

import json
import math
from functools import cache
from importlib import resources
from typing import Any

from .markup import Markup, tag

DIGITS = 5
FULL = "This chart is left out: with it the page would be larger than 6 MB."


class Charts:
    """The charts of one page; `room` is the number of bytes left for their values."""

    def __init__(self, room: int) -> None:
        self.library = library()
        self.blocks: list[Markup] = []
        self.room = room

    def draw(self, values: Any, label: str, **data: object) -> Markup:
        """Add a plotly chart `{data, layout}`; `label` describes it in words, `data` is passed to `page.js`."""
        key = self.keep(values)
        return self.place(label, values=key, **data) if key else tag("p", FULL, class_="absent")

    def keep(self, values: Any) -> str:
        """Store values and return their id for `page.js`; empty if they do not fit or plotly is missing."""
        text = embed_json(values)
        if not self.library or len(text) > self.room:
            return ""
        self.room -= len(text)
        key = f"values-{len(self.blocks)}"
        self.blocks.append(tag("script", Markup(text), type="application/json", id=key))
        return key

    def place(self, label: str, **data: object) -> Markup:
        """The element in which a chart is drawn."""
        return tag("div", class_="chart", role="img", aria_label=label, **{f"data_{key}": data[key] for key in data})


@cache
def library() -> str:
    """The source of plotly.js from the Python package; empty if it is not installed."""
    try:
        source = (resources.files("plotly") / "package_data" / "plotly.min.js").read_text(encoding="utf-8")
        return source.replace("</script", "<\\/script")
    except (ModuleNotFoundError, OSError):
        return ""


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
