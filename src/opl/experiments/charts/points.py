"""Labeled points in a plane: checked, subsampled, and drawn by both renderers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from markupsafe import Markup

from ...errors import OptionError
from ..results.runs import Rows
from .figure import Axes, Figure
from .samples import arrays_of, sample_rows
from .style import Array, color, glyph, print_label
from .svg import DataTable, Scale, drawing, element, short, symbols_path

if TYPE_CHECKING:
    from matplotlib.lines import Line2D

PRINTED = 2000  # points drawn in a file: more would overlap
LEGEND = 24  # characters of a name in a printed legend
ENTRIES = 20  # classes that a printed legend names
SIDE, MARGIN = 400, 12  # units of a chart on the page


@dataclass(frozen=True, eq=False)
class Space:
    """The features of one model, such as CE+OPL."""

    label: str
    features: Array
    """(N, D), at least one; rows that are not finite, and zero rows, have no direction and are ignored."""
    labels: Array
    """(N,), integer class ids."""
    class_names: tuple[str, ...]

    def __post_init__(self) -> None:
        check_points(self.label, self.features, self.labels, self.class_names)


def read_spaces(rows: Rows) -> list[Space]:
    """Read the test features of each row's first run."""
    spaces = []
    for row, runs in rows:
        arrays = arrays_of(runs[0])
        labels = np.asarray(arrays["labels"])
        names = runs[0].class_names(int(labels.max(initial=0)) + 1)
        spaces.append(Space(row.label, np.asarray(arrays["features"]), labels[sample_rows(arrays, "feature")], names))
    return spaces


def check_points(what: str, points: Array, labels: Array, class_names: Sequence[str]) -> None:
    """Raise OptionError unless `points` is a non-empty (N, D) array and each of the (N,) labels has a class name."""
    if np.ndim(points) != 2 or np.shape(labels) != np.shape(points)[:1] or not len(points):
        raise OptionError(
            f"the points of {what!r} have shape {np.shape(points)} and the labels {np.shape(labels)}: pass (N, D) and "
            "(N,) with at least one row."
        )
    outside = [label for label in np.unique(labels).tolist() if not 0 <= label < len(class_names)]
    if outside:
        raise OptionError(
            f"label {outside[0]} of {what!r} has no name: there are {len(class_names)} class names; pass "
            "one per class, for labels from 0."
        )


def finite(points: Array, labels: Array) -> tuple[Array, Array]:
    """Return the rows without NaN or infinity, as floats, with their labels."""
    points, labels = np.asarray(points, dtype=float), np.asarray(labels)
    kept = np.isfinite(points).all(axis=1)
    return points[kept], labels[kept]


def thin_out(points: Array, labels: Array, limit: int) -> tuple[Array, Array]:
    """Return every n-th of the finite rows, at most `limit`, with each class in proportion.

    Rows are counted class by class, so no class is lost if the classes alternate in the data.

    Example:
        >>> _, labels = thin_out(np.zeros((6, 2)), np.array([0, 1, 0, 1, 0, 1]), limit=3)
        >>> labels.tolist()
        [0, 1, 0]
    """
    points, labels = finite(points, labels)
    step = max(1, -(-len(points) // limit))
    chosen = np.sort(np.argsort(labels, kind="stable")[::step])
    return points[chosen], labels[chosen]


def principal_plane(features: Array) -> tuple[Array, float]:
    """Return (N, 2), the features on their two principal components, and the share of the variance that is left.

    The larger end of each axis is positive, so that equal features yield equal points.

    Example:
        >>> points, share = principal_plane(np.array([[0.0, 0.0, 5.0], [3.0, 0.0, 5.0], [0.0, 4.0, 5.0]]))
        >>> points.shape, round(share, 3)
        ((3, 2), 1.0)
    """
    if not len(features):
        return np.zeros((0, 2)), 1.0
    centered = features - features.mean(axis=0)
    _, lengths, axes = np.linalg.svd(centered, full_matrices=False)
    points = centered @ axes[:2].T
    points = np.pad(points, ((0, 0), (0, 2 - points.shape[1])))
    ends = np.abs(points).argmax(axis=0)
    signs = np.where(points[ends, range(2)] < 0, -1.0, 1.0)
    whole = float(np.square(lengths).sum())
    return points * signs, float(np.square(lengths[:2]).sum()) / whole if whole else 1.0


def scatter(axes: Axes, points: Array, labels: Array) -> None:
    """Draw the points into matplotlib axes, each class in its color and symbol."""
    points, labels = thin_out(points, labels, PRINTED)
    for index in np.unique(labels).tolist():
        x, y = points[labels == index].T
        axes.scatter(x, y, s=7, color=color(index), marker=glyph(index), linewidths=0, alpha=0.6)


def legend_handles(class_names: Sequence[str]) -> "list[Line2D]":
    """Return legend entries: one per class, even without points, up to `ENTRIES`; the last counts the rest."""
    from matplotlib.lines import Line2D

    labels = [print_label(name, LEGEND) for name in class_names[:ENTRIES]]
    entries = [
        Line2D([], [], linestyle="", marker=glyph(index), markersize=5, color=color(index), label=label)
        for index, label in enumerate(labels)
    ]
    beyond = len(class_names) - len(entries)
    return [*entries, Line2D([], [], linestyle="", label=f"and {beyond} more")] if beyond else entries


def add_legend(figure: Figure, class_names: Sequence[str], width: int) -> None:
    """Name the classes below a figure that is `width` characters wide."""
    longest = min(LEGEND, max(map(len, class_names)))
    columns = min(len(class_names), max(1, width // (longest + 7)))  # 7 for the symbol and the gaps around it
    figure.legend(handles=legend_handles(class_names), loc="outside lower center", ncols=columns)


def to_positions(points: Array, origin: bool = False) -> Array:
    """Return (N, 2): positions of finite points in the square chart of the page, with one scale for both axes.

    With `origin`, the chart includes the origin, whose position is then the last row, N + 1 in all.
    """
    shown = np.concatenate([points, np.zeros((1, 2))]) if origin else points
    low, high = shown.min(axis=0), shown.max(axis=0)
    middle, half = (low + high) / 2, max(float((high - low).max()) / 2, 1e-9)
    x = Scale(middle[0] - half, middle[0] + half, MARGIN, SIDE - MARGIN)
    y = Scale(middle[1] - half, middle[1] + half, SIDE - MARGIN, MARGIN)
    return np.array([(x.at(across), y.at(up)) for across, up in shown.tolist()])


def to_svg(
    label: str, positions: Array, labels: Array, origin: Array | None = None, key: str | None = None, **data: object
) -> Markup:
    """Draw the points, from `to_positions`, as a chart: one path per class, and a cross at `origin` if there is one.

    By `key`, a thumbnail repeats the points; `data` is for the script that moves a ring to the image pointed at.
    """
    paths = []
    for index in np.unique(labels).tolist():
        symbols = symbols_path(positions[labels == index].tolist(), index)
        paths.append(element("path", d=symbols, fill=color(index), stroke=color(index), data_series=index))
    ring = element("circle", r=7, class_="ring", cx=-20, cy=-20) if data else None
    cross = None
    if origin is not None:
        x, y = map(short, origin.tolist())
        lines = element("line", x1=0, x2=SIDE, y1=y, y2=y), element("line", x1=x, x2=x, y1=0, y2=SIDE)
        cross = element("g", *lines, class_="origin", aria_hidden="true")
    return drawing(label, SIDE, SIDE, cross, element("g", *paths, class_="cloud", id=key), ring, **data)


def class_table(label: str, points: Array, labels: Array, class_names: Sequence[str]) -> DataTable:
    """Return the center and the spread of each class."""
    rows = []
    for index, name in enumerate(class_names):
        members = points[labels == index]
        if len(members):
            (x, y), spread = members.mean(axis=0), float(np.sqrt(members.var(axis=0).sum()))
            rows.append((name, len(members), f"{x:.3g}", f"{y:.3g}", f"{spread:.3g}"))
    return DataTable(label, ("class", "images", "center, x", "center, y", "spread"), rows)
