"""SVG by hand: scales, ticks, lines with gaps, and symbols. Values in, markup out; colors come from the style sheet."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from ..charts.style import color, marker
from .markup import Markup, tag

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


class Scale(NamedTuple):
    """Values from `low` to `high` as places from `start` to `end`."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        """The place of a value."""
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)


def reach(values: Sequence[float], least: float = 1e-6) -> tuple[float, float]:
    """The lowest and highest finite value with a little room around them; (0, 1) if there is none.

    Example:
        >>> reach([0.0, 1.0, math.nan]), reach([])
        ((-0.04, 1.04), (0.0, 1.0))
    """
    known = [value for value in values if math.isfinite(value)]
    if not known:
        return 0.0, 1.0
    low, high = min(known), max(known)
    room = max(0.04 * (high - low), least * max(1.0, abs(high)))
    return low - room, high + room


def ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Round values from `low` to `high`, at most so many and at least one.

    Example:
        >>> ticks(-0.4, 1.3, 4)
        [0.0, 0.5, 1.0]
    """
    step = 10.0 ** math.floor(math.log10((high - low) / most))
    size = next(factor for factor in (1, 2, 2.5, 5, 10, 20, 25, 50) if (high - low) / (factor * step) <= most)
    first, last = math.ceil(low / (size * step)), math.floor(high / (size * step))
    return [round(place * size * step, 12) + 0.0 for place in range(first, last + 1)] or [round((low + high) / 2, 12)]


def line_path(points: Sequence[tuple[float, float]]) -> str:
    """A line through points, broken where one is not finite.

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


def symbols_path(points: Sequence[tuple[float, float]], look: int) -> str:
    """The symbol with this index at every point, as one path."""
    shape = SHAPES[marker(look)]
    return "".join(f"M{short(x)} {short(y)}{shape}" for x, y in points if math.isfinite(x) and math.isfinite(y))


def swatch(look: int) -> Markup:
    """The symbol with this index in its color, for a legend."""
    path = tag("path", d=f"M0 0{SHAPES[marker(look)]}", fill=color(look))
    return tag("svg", path, viewBox="-3.5 -3.5 7 7", width=12, height=12, aria_hidden="true")


def short(value: float) -> str:
    """A coordinate with two decimals and no more letters than needed.

    Example:
        >>> short(12.0), short(0.506)
        ('12', '0.51')
    """
    return f"{value:.2f}".rstrip("0").rstrip(".")


def axes(x: Scale, y: Scale, across: Sequence[float], up: Sequence[float], title: str) -> Markup:
    """Grid lines and labels of both axes; `title` names the horizontal one."""
    parts = []
    for value in up:
        place = short(y.at(value))
        parts.append(tag("line", x1=short(x.start), x2=short(x.end), y1=place, y2=place, class_="rule"))
        parts.append(tag("text", f"{value:g}", x=short(x.start - 5), y=place, dy=".32em", text_anchor="end"))
    for value in across:
        place = short(x.at(value))
        parts.append(tag("text", f"{value:g}", x=place, y=short(y.start + 14), text_anchor="middle"))
    middle = short((x.start + x.end) / 2)
    parts.append(tag("text", title, x=middle, y=short(y.start + 28), text_anchor="middle", class_="title"))
    return tag("g", *parts, class_="axes", aria_hidden="true")
