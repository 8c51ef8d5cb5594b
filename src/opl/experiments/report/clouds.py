"""Features as points: two-dimensional features directly, classes that were not in the training set by LDA."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..figures import lda, plane
from ..figures.style import Spec
from ..results.runs import Rows, Run
from .charts import Charts
from .groups import Group
from .legend import filters
from .markup import Markup, join, tag

CLASSES = 24  # maximum number of classes with check boxes


class CloudChart(NamedTuple):
    """One cloud as a plotly figure; `measured` is its angle or separation as text."""

    label: str
    spec: Spec
    measured: str
    class_names: tuple[str, ...]


def features(group: Group, rows: Rows, charts: Charts) -> Markup | None:
    """Two-dimensional features."""
    there = [(row, flat) for row, runs in rows if (flat := [run for run in runs if _is_flat(run)])]
    drawn = []
    for cloud in plane.clouds(there):
        angle = plane.mean_angle(cloud)
        measured = f"mean angle between classes {angle:.1f}°" if math.isfinite(angle) else ""
        drawn.append(CloudChart(cloud.label, plane.page([cloud]), measured, cloud.class_names))
    return _figures("Features in the plane", f"plane-{group.key}", "tall", drawn, charts)


def novel(group: Group, rows: Rows, charts: Charts) -> Markup | None:
    """Classes that were not in the training set, if evaluated with `opl evaluate RUN novel`."""
    first = [(row, run) for row, runs in rows if (run := next((run for run in runs if run.arrays("novel")), None))]
    drawn = []
    for panel in (lda.panel(row.label, run, "novel") for row, run in first):
        measured = f"separation {panel.separation:.2f}"
        drawn.append(CloudChart(panel.label, lda.page([panel]), measured, panel.class_names))
    return _figures("Classes that were never trained on, by LDA", f"lda-{group.key}", "square", drawn, charts)


def _is_flat(run: Run) -> bool:
    shape = np.shape(run.arrays().get("features", ()))
    return len(shape) == 2 and shape[1] == 2 and "labels" in run.arrays()


def _figures(title: str, key: str, shape: str, drawn: Sequence[CloudChart], charts: Charts) -> Markup | None:
    """One figure per cloud; the check boxes toggle a class in all of them."""
    if not drawn or not charts.library:
        return None
    figures = []
    for label, spec, measured, _ in drawn:
        spec["layout"].pop("annotations", None)  # shown in the caption
        caption = tag("figcaption", label, tag("span", f" {measured}", class_="quiet"))
        chart = charts.draw(spec, f"{title}, {label}: {measured}", group=key, shape=shape)
        figures.append(tag("figure", caption, chart))
    names = max((each.class_names for each in drawn), key=len)
    boxes = filters(names, "Classes", key) if len(names) <= CLASSES else None
    return join(tag("div", tag("h4", title), boxes, class_="controls"), tag("div", *figures, class_="grid two"))
