"""Learning curves: accuracy, loss, s, d and the samples kept by pruning, as means with intervals or per seed."""

from collections.abc import Sequence

import numpy as np

from ..figures.training import curve, page
from ..item import Row
from .charts import Charts
from .context import Context
from .groups import Group, badge, new_rows
from .legend import filters
from .markup import Markup, join, no_break, tag

MEASURES = {
    "val/top1": "validation accuracy, %",
    "train/loss": "training loss",
    "s": "s: cosine within a class",
    "d": "d: |cosine| between classes",
    "gamma_needed": "gamma above which OPL lowers d",
    "class_cosine": "largest cosine between two class means",
    "train/without_positive": "share of training samples that are alone in their class",
    "kept": "share of the training images that pruning keeps",
    "kept/clean": "of those, the share with a right label",
}
POINTS = 30_000  # of all curves of a group
LEAST = 4  # points of a curve, however many curves there are
FEW = 12  # epochs: up to this number, each has a tick label
AT_FIRST = 6  # curves that are initially visible
LEAD = (
    "Curves end where a run stopped, so unfinished runs are in them too. The bands are 95 % intervals over the seeds; "
    "s and d are measured on the validation images. Drag over a chart to look closer, double-click to go back."
)


def section(context: Context) -> Markup | None:
    """One chart per metric that a group has."""
    parts = []
    for group, rows in new_rows(context.groups):
        begun = [row for row in rows if any(run.records for run in group.of(row))]
        parts += [_article(group, begun, context.charts)] if begun else []
    return join(tag("p", LEAD, class_="lead"), *parts) if parts and context.charts.library else None


def _article(group: Group, rows: Sequence[Row], charts: Charts) -> Markup:
    key = f"curves-{group.key}"
    drawn = [_chart(group, rows, measure, charts, key) for measure in MEASURES]
    return tag(
        "article",
        tag("h3", no_break(group.title)),
        badge(group.scale),
        tag("div", filters([row.label for row in rows], "Curves", key, AT_FIRST), _toggle(key), class_="controls"),
        tag("div", *drawn, class_="grid two"),
    )


def _toggle(key: str) -> Markup:
    choices = [
        tag("label", tag("input", type="radio", name=key, value=kind, checked=kind == "mean", data_kind=key), words)
        for kind, words in (("mean", "mean and interval"), ("seed", "each seed"))
    ]
    return tag("fieldset", tag("legend", "Show the curves as", class_="hidden"), *choices, class_="switch")


def _chart(group: Group, rows: Sequence[Row], measure: str, charts: Charts, key: str) -> Markup | None:
    runs = [[run for run in group.of(row) if run.records] for row in rows]
    most = max(LEAST, POINTS // (len(MEASURES) * sum(map(len, runs))))
    curves = [curve(row.label, some, measure, most) for row, some in zip(rows, runs, strict=True)]
    if not any(np.isfinite(each.values).any() for each in curves):
        return None
    title = MEASURES[measure]
    words = f"{title} over the epochs for {', '.join(row.label for row in rows)}"
    spec = page(curves, title)
    del spec["layout"]["yaxis"]["title"]  # shown in the caption
    spec["layout"]["hoverdistance"] = -1  # hover selects the nearest epoch at any distance
    few = max(each.epochs[-1] for each in curves) <= FEW
    spec["layout"]["xaxis"] |= {"zeroline": False, **({"dtick": 1} if few else {})}
    return tag("figure", tag("figcaption", title), charts.draw(spec, words, group=key))
