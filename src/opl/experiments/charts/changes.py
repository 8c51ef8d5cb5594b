"""What else changed: one strip per measure with the difference of every seed. Drawn on the page only."""

import math

from markupsafe import Markup

from ..results.measures import Change
from ..statistics import GAIN, LOSS
from .forest import EDGES, Contrast, to_svg
from .svg import Scale


def contrast(change: Change) -> Contrast:
    """A change as a comparison that is a gain if it is better, whatever the direction of the measure."""
    verdict = {"better": GAIN, "worse": LOSS}.get(change.verdict, change.verdict)
    return Contrast(change.info.title, change.difference, change.decision._replace(verdict=verdict), change.pairs)


def axis_of(change: Change) -> Scale:
    """An axis of its own with 0 in the middle, in percent of the width: measures have different units."""
    farthest = max((abs(end) for end in contrast(change).ends), default=0.0)
    end = 1.08 * farthest or 1.0
    return Scale(-end, end, *EDGES)


def strip(change: Change) -> Markup | None:
    """The differences of all seeds; None without a seed that both rows have."""
    return to_svg(contrast(change), axis_of(change), math.nan) if change.before else None
