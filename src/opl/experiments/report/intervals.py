"""Paired differences drawn as SVG dots with whiskers on a shared axis; the table also shows their numbers."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ..statistics import Interval
from .markup import Markup, tag

WIDTH, HEIGHT, MARGIN = 220, 24, 20
APART = 36


@dataclass(frozen=True)
class DifferenceAxis:
    """The range of the differences in a table; always contains zero."""

    low: float
    high: float

    @classmethod
    def over(cls, differences: Sequence[Interval]) -> "DifferenceAxis | None":
        """An axis that covers all differences; None if there are none.

        Example:
            >>> DifferenceAxis.over([Interval(1.0, 0.5, 3), Interval(-0.25, math.nan, 1)])
            DifferenceAxis(low=-0.25, high=1.5)
        """
        known = [each for each in differences if math.isfinite(each.mean)]
        if not known:
            return None
        ends = [value for each in known for value in (each.mean, each.low, each.high) if math.isfinite(value)]
        low, high = min(0.0, *ends), max(0.0, *ends)
        return cls(low, high) if high > low else cls(-1.0, 1.0)

    def at(self, value: float) -> float:
        """The x coordinate of a value."""
        return round(MARGIN + (value - self.low) / (self.high - self.low) * (WIDTH - 2 * MARGIN), 1)

    def scale(self) -> Markup:
        """Tick labels at zero and at both ends, without ends that would overlap zero."""
        ends = [value for value in (self.low, self.high) if abs(self.at(value) - self.at(0)) > APART]
        labels = [tag("text", f"{value:+.2g}" if value else "0", x=self.at(value), y=10) for value in (0.0, *ends)]
        return tag("svg", *labels, **_frame(14), class_="whisker")

    def draw(self, difference: Interval, gain: bool) -> Markup:
        """Draw one difference, in the accent color if it is a gain."""
        middle = HEIGHT / 2
        zero = _line(self.at(0), 0, self.at(0), HEIGHT, "zero")
        ends = [self.at(value) for value in (difference.low, difference.high) if math.isfinite(value)]
        bar = [_line(ends[0], middle, ends[1], middle)] if ends else []
        caps = [_line(x, middle - 5, x, middle + 5) for x in ends]
        dot = tag("circle", cx=self.at(difference.mean), cy=middle, r=4.5)
        return tag("svg", zero, *bar, *caps, dot, **_frame(HEIGHT), class_="whisker gain" if gain else "whisker")


def _frame(height: int) -> dict[str, object]:
    return {"viewBox": f"0 0 {WIDTH} {height}", "width": WIDTH, "height": height, "aria_hidden": "true"}


def _line(x1: float, y1: float, x2: float, y2: float, kind: str | None = None) -> Markup:
    return tag("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=kind)
