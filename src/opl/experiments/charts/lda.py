"""Figure s1: base and novel classes of few-shot learning, projected by linear discriminant analysis (LDA)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...errors import OptionError
from ..results.runs import Rows, Run
from .figure import Figure, Order, Rendering, new_figure
from .points import check_points, legend_handles, scatter
from .samples import arrays_of, sample_rows
from .style import Array, print_label

ENTRIES = 12  # legend entries at the normal font size; longer legends use a smaller font
KINDS = {"base": "test", "novel": "novel"}  # kind of classes -> name of the arrays that contain them


@dataclass(frozen=True, eq=False)
class Panel:
    """The projected features of the classes of one split, for one model, such as "CE+OPL, novel classes"."""

    label: str
    points: Array
    """(N, 2), from `project`; rows that are not finite are not drawn."""
    labels: Array
    class_names: tuple[str, ...]
    separation: float

    def __post_init__(self) -> None:
        check_points(self.label, self.points, self.labels, self.class_names)


def panel(label: str, run: Run, name: str) -> Panel:
    """Project all classes in the named arrays of a run onto the two directions that separate them best."""
    arrays = arrays_of(run, name)
    features = np.asarray(arrays["features"], dtype=float)
    labels = np.asarray(arrays["labels"])[sample_rows(arrays, "feature")]
    stored = arrays.get("class_names")
    names = run.class_names(int(labels.max(initial=0)) + 1) if stored is None else tuple(map(str, stored))
    return Panel(label, project(features, labels), labels, names, separation(features, labels))


def project(features: Array, labels: Array) -> Array:
    """Project features to (N, 2), in the plane that best separates their classes relative to their spread (LDA).

    The SVD solver works with fewer samples than features, but ignores directions in which no class has any spread; if
    there are no other directions, the class means define the plane. Two classes have only one direction: the second
    column is zero. Rows that are not finite are ignored and become NaN.

    Example:
        >>> np.abs(project(np.array([[0.0], [2.0], [10.0], [12.0]]), np.array([0, 0, 1, 1]))).round(3)
        array([[6., 0.],
               [4., 0.],
               [4., 0.],
               [6., 0.]])
    """
    features, labels, kept = _validate(features, labels)
    count = len(np.unique(labels[kept]))
    if count < 2 or kept.sum() <= count:
        raise OptionError(
            f"there are {kept.sum()} finite features of {count} classes: pass at least two classes, and more samples "
            "than classes."
        )
    projected = _discriminants(features[kept], labels[kept])
    points = np.full((len(features), 2), np.nan)
    points[kept] = np.pad(projected, ((0, 0), (0, 2 - projected.shape[1])))
    return points


def separation(features: Array, labels: Array) -> float:
    """Compute how well classes are separated: the trace of the between-class over the within-class scatter.

    It is computed from the features, not from the projection, so it does not depend on the drawing. Rows that are not
    finite are ignored; distinct classes without any spread give infinity.

    Example:
        >>> separation(np.array([[0.0], [2.0], [10.0], [12.0]]), np.array([0, 0, 1, 1]))
        25.0
    """
    features, labels, kept = _validate(features, labels)
    features, labels = features[kept], labels[kept]
    between = within = 0.0
    for members in (features[labels == label] for label in np.unique(labels)):
        center = members.mean(axis=0)
        between += len(members) * float(np.square(center - features.mean(axis=0)).sum())
        within += float(np.square(members - center).sum())
    if within == 0:
        return float("inf") if between else 0.0
    return between / within


def draw(panels: Sequence[Sequence[Panel]]) -> Figure:
    """Draw a matplotlib figure: a grid with base and novel classes in rows, CE and CE+OPL in columns.

    Neighbors with the same classes share the legend to their right.
    """
    across = len(panels[0])
    with new_figure(2.8 * across + 1, 2.7 * len(panels), len(panels), across) as (figure, grid):
        for row, line in zip(panels, grid, strict=True):
            for panel, neighbor, axes in zip(row, [*row[1:], None], line, strict=True):
                scatter(axes, panel.points, panel.labels)
                title = f"{print_label(panel.label, width=32)}\nseparation {panel.separation:.2f}"
                axes.set_title(title, loc="left")
                if neighbor is None or neighbor.class_names != panel.class_names:
                    entries = legend_handles(panel.class_names)
                    small = {"fontsize": 6, "labelspacing": 0.3} if len(entries) > ENTRIES else {}
                    axes.legend(handles=entries, loc="center left", bbox_to_anchor=(1.01, 0.5), **small)
    return figure


def render(rows: Rows, order: Order) -> Rendering:
    """Render base classes above and novel classes below, a column per row; as text, their separation."""
    panels = [
        [panel(f"{row.label}, {kind} classes", runs[0], name) for row, runs in rows] for kind, name in KINDS.items()
    ]
    text = [f"{part.label}: between / within scatter {part.separation:.3f}" for line in panels for part in line]
    return Rendering({"": draw(panels)}, text, {"": [runs[0] for _, runs in rows]})


def _validate(features: Array, labels: Array) -> tuple[Array, Array, Array]:
    """Return the features as floats, the labels, and a mask of the finite rows."""
    features, labels = np.asarray(features, dtype=float), np.asarray(labels)
    if features.ndim != 2 or not features.size or labels.shape != features.shape[:1]:
        raise OptionError(
            f"features have shape {features.shape} and labels {labels.shape}: pass (N, D) and (N,), N > 0."
        )
    kept: Array = np.all(np.isfinite(features), axis=1)
    return features, labels, kept


def _discriminants(features: Array, labels: Array) -> Array:
    """Return (N, 2), or (N, 1) if there is no second direction."""
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    classes = [features[labels == label] for label in np.unique(labels)]
    inside = np.concatenate([members - members.mean(axis=0) for members in classes])
    if np.abs(inside).max() <= 1e-12 * np.abs(features).max():  # scikit-learn would divide by zero
        centered = features - features.mean(axis=0)
        axes = np.linalg.svd(centered, full_matrices=False)[2]
        return np.asarray(centered @ axes[:2].T)
    return np.asarray(LinearDiscriminantAnalysis(solver="svd").fit_transform(features, labels)[:, :2])
