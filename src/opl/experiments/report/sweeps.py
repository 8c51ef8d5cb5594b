"""Accuracy over the settings of the loss and the batch size, for runs that differ in nothing else."""

from typing import Any

from ..figures.search import SETTINGS, grids, heat, page, sweeps
from .charts import Charts
from .context import Context
from .groups import Group, badge
from .markup import Markup, join, no_break, tag

LEAD = "Means over the seeds with 95 % intervals. The baseline is the same method without OPL, trained in the same way."


def section(context: Context) -> Markup | None:
    """Charts for each group whose runs vary a setting."""
    parts = [part for group in context.groups if (part := _article(group, context.charts))]
    return join(tag("p", LEAD, class_="lead"), *parts) if parts and context.charts.library else None


def _article(group: Group, charts: Charts) -> Markup | None:
    if not group.item.metrics:
        return None
    metric, words = next(iter(group.item.metrics.items()))
    runs = [run for row in group.rows for run in group.finished(row)]
    names = (SETTINGS["weight"], SETTINGS["gamma"])
    drawn = [
        _figure(f"{words} over {' and '.join(names)}", heat(grid.weights, grid.gammas, grid.means, names), charts)
        for grid in grids(runs, metric)
    ]
    lines = sweeps(runs, metric)
    for setting in [name for name in lines if name != "gamma" or not drawn]:  # a grid already shows gamma
        spec = page(lines[setting], SETTINGS[setting], words)
        del spec["layout"]["yaxis"]["title"]  # shown in the caption
        drawn.append(_figure(f"{words} over {SETTINGS[setting]}", spec, charts))
    if not drawn:
        return None
    return tag("article", tag("h3", no_break(group.title)), badge(group.scale), tag("div", *drawn, class_="grid two"))


def _figure(title: str, spec: dict[str, Any], charts: Charts) -> Markup:
    return tag("figure", tag("figcaption", title), charts.draw(spec, title))
