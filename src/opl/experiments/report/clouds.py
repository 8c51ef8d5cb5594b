"""Features as points: those of two dimensions as they are, classes that a run never saw by LDA."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..figures import lda, plane
from ..figures.style import Spec
from ..results.runs import outputs
from .charts import Charts
from .groups import Group
from .legend import filters
from .markup import Markup, join, tag
from .predictions import RunPredictions

CLASSES = 24  # up to so many can be switched on and off


class CloudChart(NamedTuple):
    """One cloud, ready for the page: `measured` is its number in words."""

    label: str
    spec: Spec
    measured: str
    class_names: tuple[str, ...]


def features(group: Group, seen: Sequence[RunPredictions], charts: Charts) -> Markup | None:
    """Features of two dimensions."""
    drawn = []
    for cloud in (cloud for one in seen if (cloud := one.cloud()) is not None):
        angle = plane.mean_angle(cloud)
        measured = f"mean angle between classes {angle:.1f}°" if math.isfinite(angle) else ""
        drawn.append(CloudChart(cloud.label, plane.page([cloud]), measured, cloud.class_names))
    return _figures("Features in the plane", f"plane-{group.key}", "tall", drawn, charts)


def novel(group: Group, seen: Sequence[RunPredictions], charts: Charts) -> Markup | None:
    """Classes that a run never saw, where they were measured: `opl evaluate RUN novel`."""
    drawn = []
    for one in seen:
        arrays = outputs(one.run, "novel")
        if arrays:
            points = np.asarray(arrays["features"], dtype=float)
            labels = np.asarray(arrays["labels"])[: len(points)]
            names = tuple(str(name) for name in arrays["class_names"])
            apart = lda.separation(points, labels)
            panel = lda.Panel(one.row.label, lda.project(points, labels), labels, names, apart)
            drawn.append(CloudChart(one.row.label, lda.page([panel]), f"separation {apart:.2f}", names))
    return _figures("Classes that were never trained on, by LDA", f"lda-{group.key}", "square", drawn, charts)


def _figures(title: str, key: str, shape: str, drawn: Sequence[CloudChart], charts: Charts) -> Markup | None:
    """One figure for each cloud; the classes' check boxes switch them together."""
    if not drawn or not charts.library:
        return None
    figures = []
    for label, spec, measured, _ in drawn:
        spec["layout"].pop("annotations", None)  # the caption says it
        caption = tag("figcaption", label, tag("span", f" {measured}", class_="quiet"))
        chart = charts.draw(spec, f"{title}, {label}: {measured}", group=key, shape=shape)
        figures.append(tag("figure", caption, chart))
    names = max((each.class_names for each in drawn), key=len)
    boxes = filters(names, "Classes", key) if len(names) <= CLASSES else None
    return join(tag("div", tag("h4", title), boxes, class_="controls"), tag("div", *figures, class_="grid two"))
