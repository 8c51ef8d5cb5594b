"""Figure s1: base and novel classes of few-shot learning, seen by linear discriminant analysis."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import OptionError
from ..results.runs import Rows, Run
from ._points import check, columns, handles, heading, keys, list_once, scatter, traces
from ._rendering import Order, Rendering, arrays_of
from .style import Array, Spec, layout, paper, print_label, text, texts

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NEEDS = ("test", "novel")
ROOM = 12  # entries of a legend beside a panel; of more, in smaller letters, there is room for all that it names
KINDS = {"base": "test", "novel": "novel"}  # which classes, and the arrays that have them


@dataclass(frozen=True, eq=False)
class Panel:
    """The classes of one split as one model sees them.

    Args:
        label: which, for instance "CE+OPL, novel classes".
        points: (N, 2), from `project`; rows that are not finite are not drawn.
        labels: (N,), integer class ids.
        class_names: one for each class.
        separation: from `separation`.
    """

    label: str
    points: Array
    labels: Array
    class_names: tuple[str, ...]
    separation: float

    def __post_init__(self) -> None:
        check(self.label, self.points, self.labels, self.class_names)


def panel(label: str, run: Run, name: str) -> Panel:
    """All classes of some arrays of a run, in the two directions that tell them apart best.

    Args:
        label: of the panel.
        run: which keeps them.
        name: of the arrays.
    """
    arrays = arrays_of(run, name)
    features = np.asarray(arrays["features"], dtype=float)
    labels = np.asarray(arrays["labels"])[: len(features)]
    given = arrays.get("class_names")
    names = run.class_names(int(labels.max(initial=0)) + 1) if given is None else tuple(map(str, given))
    return Panel(label, project(features, labels), labels, names, separation(features, labels))


def project(features: Array, labels: Array) -> Array:
    """(N, 2) the features in the plane in which their classes are furthest apart for their width.

    The solver is the one by singular values, which takes fewer samples than features, but does not see a direction in
    which no class has any width; where there is no other, the plane is that of the class means. Two classes need one
    direction alone: the second column is zero. A row that is not finite takes no part and is NaN.

    Args:
        features: (N, D).
        labels: (N,), integer class ids, of at least two classes.

    Example:
        >>> np.abs(project(np.array([[0.0], [2.0], [10.0], [12.0]]), np.array([0, 0, 1, 1]))).round(3)
        array([[6., 0.],
               [4., 0.],
               [4., 0.],
               [6., 0.]])
    """
    features, labels, kept = _checked(features, labels)
    count = len(np.unique(labels[kept]))
    if count < 2 or kept.sum() <= count:
        raise OptionError(
            f"there are {kept.sum()} finite features of {count} classes: give at least two classes and more samples "
            "than classes."
        )
    found = _discriminants(features[kept], labels[kept])
    points = np.full((len(features), 2), np.nan)
    points[kept] = np.pad(found, ((0, 0), (0, 2 - found.shape[1])))
    return points


def separation(features: Array, labels: Array) -> float:
    """How far the classes lie apart for their width: the trace of the scatter between them over that within them.

    It is taken in the space of the features, not of the picture, so pictures cannot flatter. Rows that are not finite
    take no part; classes of no width, apart from each other, give infinity.

    Args:
        features: (N, D).
        labels: (N,), integer class ids.

    Example:
        >>> separation(np.array([[0.0], [2.0], [10.0], [12.0]]), np.array([0, 0, 1, 1]))
        25.0
    """
    features, labels, kept = _checked(features, labels)
    features, labels = features[kept], labels[kept]
    between = within = 0.0
    for own in (features[labels == label] for label in np.unique(labels)):
        center = own.mean(axis=0)
        between += len(own) * float(np.square(center - features.mean(axis=0)).sum())
        within += float(np.square(own - center).sum())
    if within == 0:
        return float("inf") if between else 0.0
    return between / within


def draw(panels: Sequence[Sequence[Panel]]) -> "Figure":
    """For print: a grid, for instance base and novel classes in rows, CE and CE+OPL in columns.

    Args:
        panels: rows of panels. Neighbors with the same classes share the legend at their right.

    Example:
        >>> panel = Panel("CE", np.array([[0.0, 0.0], [1.0, 0.0]]), np.array([0, 1]), ("cat", "dog"), separation=2.0)
        >>> len(draw([[panel, panel], [panel, panel]]).axes)
        4
    """
    from matplotlib.figure import Figure

    if not panels or not all(panels):
        raise OptionError("a row has no panel to draw: give at least one row, with at least one panel in each.")
    across = max(map(len, panels))
    with paper():
        figure = Figure(figsize=(2.8 * across + 1, 2.7 * len(panels)), layout="constrained")
        grid = figure.subplots(len(panels), across, squeeze=False)
        for row, line in zip(panels, grid, strict=True):
            for i, axes in enumerate(line):
                if i < len(row):
                    _panel(axes, row[i], row[i + 1 : i + 2])
                else:
                    axes.set_axis_off()
    return figure


def page(panels: Sequence[Panel]) -> Spec:
    """For a web page: the panels side by side, a trace for each class of each; a class toggles in all panels.

    Args:
        panels: for instance those of CE and of CE+OPL.

    Example:
        >>> panel = Panel("CE", np.array([[0.0, 0.0], [1.0, 0.0]]), np.array([0, 1]), ("cat", "dog"), separation=2.0)
        >>> [trace["name"] for trace in page([panel, panel])["data"]]
        ['cat', 'dog', 'cat', 'dog']
    """
    if not panels:
        raise OptionError("there is no panel to draw: give at least one.")
    domains = columns(len(panels))
    known = list(dict.fromkeys(name for panel in panels for name in texts(panel.class_names)))
    data: list[Spec] = []
    axes: Spec = {}
    for number, (panel, domain) in enumerate(zip(panels, domains, strict=True), start=1):
        names = texts(panel.class_names)
        data += traces(panel.points, panel.labels, names, number, [known.index(name) for name in names])
        x, y = keys(number)
        axes |= {x: {"domain": domain, "anchor": f"y{number}"}, y: {"anchor": f"x{number}"}}
    titles = [
        heading(_title(text(one.label), one, "<br>"), domain) for one, domain in zip(panels, domains, strict=True)
    ]
    return {"data": list_once(data), "layout": layout(**axes, annotations=titles, height=420, legend={"y": 1.14})}


def render(rows: Rows, order: Order) -> Rendering:
    """Base classes above, novel ones below, a column for each row's first run; and how far they lie apart."""
    panels = [
        [panel(f"{row.label}, {kind} classes", runs[0], name) for row, runs in rows] for kind, name in KINDS.items()
    ]
    words = [f"{each.label}: between / within scatter {each.separation:.3f}" for some in panels for each in some]
    return Rendering({"": draw(panels)}, words)


def _checked(features: Array, labels: Array) -> tuple[Array, Array, Array]:
    """Features as floats, labels, and which rows are finite."""
    features, labels = np.asarray(features, dtype=float), np.asarray(labels)
    if features.ndim != 2 or not features.size or labels.shape != features.shape[:1]:
        raise OptionError(
            f"features have shape {features.shape} and labels {labels.shape}: give (N, D) and (N,), at least one row."
        )
    kept: Array = np.all(np.isfinite(features), axis=1)
    return features, labels, kept


def _discriminants(features: Array, labels: Array) -> Array:
    """(N, 2), or (N, 1) where there is no second direction."""
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    classes = [features[labels == label] for label in np.unique(labels)]
    inside = np.concatenate([own - own.mean(axis=0) for own in classes])
    if np.abs(inside).max() <= 1e-12 * np.abs(features).max():  # scikit-learn would divide by it
        centered = features - features.mean(axis=0)
        axes = np.linalg.svd(centered, full_matrices=False)[2]
        return np.asarray(centered @ axes[:2].T)
    return np.asarray(LinearDiscriminantAnalysis(solver="svd").fit_transform(features, labels)[:, :2])


def _panel(axes: "Axes", panel: Panel, neighbor: Sequence[Panel]) -> None:
    scatter(axes, panel.points, panel.labels)
    axes.set_title(_title(print_label(panel.label, width=32), panel, "\n"), loc="left")
    if not any(other.class_names == panel.class_names for other in neighbor):
        entries = handles(panel.class_names)
        small: dict[str, Any] = {"fontsize": 6, "labelspacing": 0.3} if len(entries) > ROOM else {}
        axes.legend(handles=entries, loc="center left", bbox_to_anchor=(1.01, 0.5), **small)


def _title(label: str, panel: Panel, line_end: str) -> str:
    return f"{label}{line_end}separation {panel.separation:.2f}"
