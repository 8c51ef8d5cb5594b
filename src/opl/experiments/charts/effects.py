"""A forest plot of the paper's OPL over all tables, as an SVG file: one line per setting, one diamond per task."""

import math
from collections.abc import Mapping, Sequence
from itertools import groupby

from markupsafe import Markup

from ..item import Item
from ..results.comparisons import without_percent
from ..results.summary import Setting, measure_effects, summarize
from ..statistics import Interval
from .svg import Scale, element, extent, short, ticks

LINE, TOP, WIDTH, MIDDLE, RIGHT = 16, 8, 940, 400, 790  # pixels; the axis runs from MIDDLE to RIGHT
INK, FAINT, MEAN = "#333", "#bbb", "#c2410c"
HALF = 5  # half the height of a diamond
CHARACTER = 6.4  # pixels; the mean width of a character of a label


def draw_effects(settings: Sequence[Setting], items: Mapping[str, Item]) -> str:
    """Draw the differences from the baseline with 95 % intervals by task, and their random-effects means."""
    rows: list[tuple[str, Interval, bool]] = []
    by_task = sorted(settings, key=lambda setting: [other.task for other in settings].index(setting.task))
    for _, group in groupby(by_task, key=lambda setting: setting.task):
        members = list(group)
        effects = measure_effects(members)
        rows += [
            (describe_setting(member, items), effect, False) for member, effect in zip(members, effects, strict=True)
        ]
        rows += [(f"{mean.task}: mean of {mean.settings} settings", mean.effect, True) for mean in summarize(members)]
    ends = [end for _, effect, _ in rows for end in (effect.mean, effect.low, effect.high)]
    x = Scale(*extent([0.0, *ends]), MIDDLE, RIGHT)
    bottom = TOP + LINE * len(rows)
    left = min(0, MIDDLE - 8 - round(CHARACTER * max(len(label) for label, _, _ in rows)))
    content = [element("rect", x=left, width="100%", height="100%", fill="#fff"), *_axis(x, bottom)]
    for index, (label, effect, summary) in enumerate(rows):
        content += _line(x, TOP + LINE * (index + 0.5), label, effect, summary)
    label = "Differences of the paper's OPL from its baseline, setting by setting and summarized by task"
    box = {"xmlns": "http://www.w3.org/2000/svg", "viewBox": f"{left} 0 {WIDTH - left} {bottom + 34}", "role": "img"}
    font = {"font_family": "sans-serif", "font_size": 11}
    return f"{element('svg', *content, **box, aria_label=label, **font)}\n"


def describe_setting(setting: Setting, items: Mapping[str, Item]) -> str:
    """Describe a setting by its table, its row and, if the table compares several numbers, its metric."""
    item = items[setting.item]
    metric = f", {without_percent(item.metrics[setting.metric])}" if len(item.main) > 1 else ""
    return f"{setting.item}: {setting.label}{metric}"


def _axis(x: Scale, bottom: float) -> list[Markup]:
    parts = []
    for value in ticks(x.low, x.high, 12):
        at = short(x.at(value))
        parts.append(element("line", x1=at, x2=at, y1=TOP, y2=bottom, stroke=FAINT if value else INK, stroke_width=0.6))
        parts.append(element("text", f"{value:+g}" if value else "0", x=at, y=bottom + 13, text_anchor="middle"))
    title = "difference in accuracy, percentage points (95 % interval)"
    return [*parts, element("text", title, x=short((MIDDLE + RIGHT) / 2), y=bottom + 28, text_anchor="middle")]


def _line(x: Scale, y: float, label: str, effect: Interval, summary: bool) -> list[Markup]:
    """Draw one setting as a dot with its interval, or a summary as a diamond as wide as its interval."""
    mean = short(x.at(effect.mean))
    known = math.isfinite(effect.half)
    low, high = (short(x.at(end)) if known else mean for end in (effect.low, effect.high))
    if summary:
        path = f"M{low} {short(y)}L{mean} {short(y - HALF)}L{high} {short(y)}L{mean} {short(y + HALF)}Z"
        marks = [element("path", d=path, fill=MEAN)]
    else:
        marks = [
            element("line", x1=low, x2=high, y1=short(y), y2=short(y), stroke=INK),
            element("circle", cx=mean, cy=short(y), r=2.6, fill=INK),
        ]
    ends = f" [{effect.low:+.2f}, {effect.high:+.2f}]" if known else ""
    weight = "bold" if summary else None
    return [
        element("text", label, x=MIDDLE - 8, y=short(y), dy=".32em", text_anchor="end", font_weight=weight),
        *marks,
        element("text", f"{effect.mean:+.2f}{ends}", x=RIGHT + 8, y=short(y), dy=".32em", font_weight=weight),
    ]
