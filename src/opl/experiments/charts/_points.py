"""Labeled points in a plane: checked, subsampled and drawn."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...errors import OptionError
from .style import Array, color, glyph, print_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

PRINTED = 2000  # points drawn: more would overlap
LEGEND = 24  # characters of a name in a printed legend
ENTRIES = 20  # classes that a printed legend names


def check(what: str, points: Array, labels: Array, class_names: Sequence[str]) -> None:
    """Raise OptionError unless `points` is a non-empty (N, 2) array and each of the (N,) labels has a class name."""
    if np.ndim(points) != 2 or np.shape(points)[1] != 2 or not len(points):
        raise OptionError(
            f"the points of {what!r} have shape {np.shape(points)}: give at least one row of two numbers."
        )
    if np.shape(labels) != (len(points),):
        raise OptionError(f"the labels of {what!r} have shape {np.shape(labels)}: give one for each of {len(points)}.")
    outside = [label for label in np.unique(labels).tolist() if not 0 <= label < len(class_names)]
    if outside:
        raise OptionError(
            f"label {outside[0]} of {what!r} has no name: there are {len(class_names)} class names, for labels from 0 "
            "up; give one for each class."
        )


def finite(points: Array, labels: Array) -> tuple[Array, Array]:
    """The rows without NaN or infinity, as floats, with their labels."""
    points, labels = np.asarray(points, dtype=float), np.asarray(labels)
    kept = np.isfinite(points).all(axis=1)
    return points[kept], labels[kept]


def thin_out(points: Array, labels: Array, limit: int) -> tuple[Array, Array]:
    """Every n-th of the finite rows, at most `limit`, with each class in proportion.

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


def scatter(axes: "Axes", points: Array, labels: Array) -> None:
    """Draw the points into matplotlib axes, each class in its color and symbol."""
    points, labels = thin_out(points, labels, PRINTED)
    for index in np.unique(labels).tolist():
        x, y = points[labels == index].T
        axes.scatter(x, y, s=7, color=color(index), marker=glyph(index), linewidths=0, alpha=0.6)


def handles(class_names: Sequence[str]) -> "list[Line2D]":
    """The entries of a legend: one per class, even without points, up to `ENTRIES`; the last counts the rest."""
    from matplotlib.lines import Line2D

    labels = [print_label(name, LEGEND) for name in class_names[:ENTRIES]]
    entries = [
        Line2D([], [], linestyle="", marker=glyph(index), markersize=5, color=color(index), label=label)
        for index, label in enumerate(labels)
    ]
    beyond = len(class_names) - len(entries)
    return [*entries, Line2D([], [], linestyle="", label=f"and {beyond} more")] if beyond else entries


def legend_columns(class_names: Sequence[str], width: int) -> int:
    """The number of columns of a printed legend that fit into `width` characters.

    Example:
        >>> legend_columns(["cat", "aquarium fish"], 85), legend_columns(["x" * 99] * 5, 85)
        (2, 2)
    """
    longest = min(LEGEND, max(map(len, class_names)))
    return min(len(class_names), max(1, width // (longest + 7)))  # 7 for the symbol and the gaps around it
