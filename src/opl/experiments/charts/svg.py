"""The SVG renderer of the page: escaped elements, scales, ticks, lines with gaps, symbols, and the table of a chart.

Colors that depend on the theme come from the style sheet.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from markupsafe import Markup, escape

from .style import color, marker

KEYS = "Arrow keys step through its values."

# Symbols around (0, 0), about 5 units wide, as relative path commands after a move to the point.
SHAPES = {
    "circle": "m-2.6 0a2.6 2.6 0 1 0 5.2 0a2.6 2.6 0 1 0-5.2 0z",
    "square": "m-2.3-2.3h4.6v4.6h-4.6z",
    "diamond": "m0-3.2l3.2 3.2l-3.2 3.2l-3.2-3.2z",
    "triangle-up": "m0-3l3 5.2h-6z",
    "x": "m-2.6-1.4l1.2-1.2l1.4 1.4l1.4-1.4l1.2 1.2l-1.4 1.4l1.4 1.4l-1.2 1.2l-1.4-1.4l-1.4 1.4l-1.2-1.2l1.4-1.4z",
    "triangle-down": "m0 3l3-5.2h-6z",
    "cross": "m-.9-2.8h1.8v1.9h1.9v1.8h-1.9v1.9h-1.8v-1.9h-1.9v-1.8h1.9z",
}


@dataclass(frozen=True)
class DataTable:
    """The numbers behind a chart: column names, and rows whose first cell names the row."""

    label: str
    head: Sequence[str]
    rows: Sequence[Sequence[object]]
    text: Sequence[str] = ()
    """The columns that hold text, which is aligned left."""
    key: str = ""
    """The id of its element, for scripts."""
    kind: str = "plain"


class Scale(NamedTuple):
    """Maps values from `low` to `high` to positions from `start` to `end`."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        """Return the position of a value."""
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)


def element(name: str, /, *children: object, **attributes: object) -> Markup:
    """Return an SVG element; all text is escaped unless it is markup already.

    `class_` is `class` and `aria_label` is `aria-label`; attributes and children that are None are omitted.

    Example:
        >>> str(element("text", "a < b", x=3, class_="name", id=None))
        '<text x="3" class="name">a &lt; b</text>'
    """
    parts = [
        Markup(' {}="{}"').format(key.rstrip("_").replace("_", "-"), value)
        for key, value in attributes.items()
        if value is not None
    ]
    content = Markup("").join(escape(child) for child in children if child is not None)
    return Markup("<{0}{1}>{2}</{0}>").format(name, Markup("").join(parts), content)


def drawing(label: str, width: float, height: float, *content: Markup | None, **data: object) -> Markup:
    """Return a chart that the tab key reaches; `label` says what it shows, and `data` is for the scripts."""
    attributes = {f"data_{key}": value for key, value in data.items()}
    description = f"{label} {KEYS}" if data else label
    box = {"viewBox": f"0 0 {width:g} {height:g}", "role": "img", "aria_label": description, "tabindex": 0}
    return element("svg", *content, **box, class_="chart", **attributes)


def axes(x: Scale, y: Scale, across: Mapping[float, str], title: str = "", most: int = 6) -> Markup:
    """Draw at most `most` horizontal grid lines with their values, and labels below, by their horizontal value."""
    parts = []
    for value in ticks(y.low, y.high, most):
        line = short(y.at(value))
        parts.append(element("line", x1=short(x.start), x2=short(x.end), y1=line, y2=line, class_="rule"))
        parts.append(element("text", f"{value:g}", x=short(x.start - 5), y=line, dy=".32em", text_anchor="end"))
    for value, label in across.items():
        parts.append(element("text", label, x=short(x.at(value)), y=short(y.start + 15), text_anchor="middle"))
    if title:
        middle = short((x.start + x.end) / 2)
        parts.append(element("text", title, x=middle, y=short(y.start + 30), text_anchor="middle", class_="title"))
    return element("g", *parts, class_="axes", aria_hidden="true")


def swatch(index: int) -> Markup:
    """Draw the symbol with this index in its color, for a legend."""
    path = element("path", d=f"M0 0{SHAPES[marker(index)]}", fill=color(index))
    return element("svg", path, viewBox="-3.5 -3.5 7 7", width=12, height=12, aria_hidden="true")


def extent(values: Sequence[float], least: float = 1e-6) -> tuple[float, float]:
    """Return the lowest and highest finite value with a small margin around them; (0, 1) if there is none.

    Example:
        >>> extent([0.0, 1.0, math.nan]), extent([])
        ((-0.04, 1.04), (0.0, 1.0))
    """
    known = [value for value in values if math.isfinite(value)]
    if not known:
        return 0.0, 1.0
    low, high = min(known), max(known)
    margin = max(0.04 * (high - low), least * max(1.0, abs(high)))
    return low - margin, high + margin


def ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Return round values from `low` to `high`: at least one, at most `most`.

    Example:
        >>> ticks(-0.4, 1.3, 4)
        [0.0, 0.5, 1.0]
    """
    step = 10.0 ** math.floor(math.log10((high - low) / most))
    size = next(factor for factor in (1, 2, 2.5, 5, 10, 20, 25, 50) if (high - low) / (factor * step) <= most)
    first, last = math.ceil(low / (size * step)), math.floor(high / (size * step))
    return [round(index * size * step, 12) + 0.0 for index in range(first, last + 1)] or [round((low + high) / 2, 12)]


def line_path(points: Sequence[tuple[float, float]]) -> str:
    """Return a line through points, broken where a value is not finite.

    Example:
        >>> line_path([(0, 1), (1, 2), (2, math.nan), (3, 4), (4, 4.25)])
        'M0 1L1 2M3 4L4 4.25'
    """
    parts, pen = [], "M"
    for x, y in points:
        if math.isfinite(y):
            parts.append(f"{pen}{short(x)} {short(y)}")
        pen = "L" if math.isfinite(y) else "M"
    return "".join(parts)


def symbols_path(points: Sequence[tuple[float, float]], index: int) -> str:
    """Return the symbol with this index at every point, as one path."""
    shape = SHAPES[marker(index)]
    return "".join(f"M{short(x)} {short(y)}{shape}" for x, y in points if math.isfinite(x) and math.isfinite(y))


def short(value: float) -> str:
    """Format a coordinate with at most two decimals.

    Example:
        >>> short(12.0), short(0.506)
        ('12', '0.51')
    """
    return f"{value:.2f}".rstrip("0").rstrip(".")
