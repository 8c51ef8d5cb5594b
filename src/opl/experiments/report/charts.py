"""Charts on the page: a place for each, and its values as JSON; `page.js` draws it when it comes into view."""

import json
import math
from functools import cache
from importlib import resources
from typing import Any

from .markup import Markup, tag

DIGITS = 5
FULL = "This chart is left out: with it the page would be larger than 6 MB."


class Charts:
    """The charts of one page, whose values may take so many bytes together."""

    def __init__(self, room: int) -> None:
        self.library = library()
        self.blocks: list[Markup] = []
        self.room = room

    def draw(self, values: Any, label: str, **data: object) -> Markup:
        """A chart of plotly's `{data, layout}`; `label` says in words what it shows, `data` is for `page.js`."""
        key = self.keep(values)
        return self.place(label, values=key, **data) if key else tag("p", FULL, class_="absent")

    def keep(self, values: Any) -> str:
        """The id under which `page.js` finds the values; empty where they cannot be shown."""
        text = embed_json(values)
        if not self.library or len(text) > self.room:
            return ""
        self.room -= len(text)
        key = f"values-{len(self.blocks)}"
        self.blocks.append(tag("script", Markup(text), type="application/json", id=key))
        return key

    def place(self, label: str, **data: object) -> Markup:
        """Where a chart is drawn."""
        return tag("div", class_="chart", role="img", aria_label=label, **{f"data_{key}": data[key] for key in data})


@cache
def library() -> str:
    """The source of plotly.js, as the Python package brings it; empty where that is not installed."""
    try:
        source = (resources.files("plotly") / "package_data" / "plotly.min.js").read_text(encoding="utf-8")
        return source.replace("</script", "<\\/script")
    except (ModuleNotFoundError, OSError):
        return ""


def embed_json(values: Any) -> str:
    """JSON that can stand inside a script element, whatever is in it.

    Example:
        >>> embed_json({"name": "</script>", "loss": float("nan")})
        '{"name":"\\\\u003c/script>","loss":null}'
    """
    return json.dumps(_plain(values), separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def _plain(value: Any) -> Any:
    """Plain values, numbers with five digits that count, and null for those that are none."""
    if isinstance(value, dict):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None
    return value
