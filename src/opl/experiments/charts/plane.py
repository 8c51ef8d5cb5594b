"""Figure 2: two-dimensional features, their angles on the unit circle as one histogram per class, and all pairs."""

from collections.abc import Sequence
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from ...errors import OptionError
from ..results.runs import Rows, Run
from . import _ring
from ._points import check, finite, handles, legend_columns, scatter
from .features import Space
from .rendering import Order, Rendering, arrays_of, sample_rows
from .style import Array, paper, print_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NEEDS = ("test",)
FEW = 4  # classes up to which each pair is named in words, and the matrix of their angles is small


class Cloud(Space):
    """The two-dimensional features of one model; rows that are not finite are not drawn."""

    def __post_init__(self) -> None:
        check(self.label, self.features, self.labels, self.class_names)


def clouds(rows: Rows) -> list[Cloud]:
    """The test features of each row's first run, which must be two-dimensional."""
    found = []
    for row, runs in rows:
        arrays = arrays_of(runs[0])
        features, labels = np.asarray(arrays["features"]), np.asarray(arrays["labels"])
        names = runs[0].class_names(int(labels.max(initial=0)) + 1)
        found.append(Cloud(row.label, features, labels[sample_rows(arrays, "feature")], names))
    return found


def directions(cloud: Cloud) -> Array:
    """(C, 2) the direction of each class: the mean of its unit features, as a unit vector.

    A class without samples, with only zero features, or whose features cancel has no direction: its row is zero.

    Example:
        >>> directions(Cloud("CE", np.array([[2.0, 0.0], [0.0, 3.0]]), np.array([0, 1]), ("zero", "one", "two")))
        array([[1., 0.],
               [0., 1.],
               [0., 0.]])
    """
    means = [own.sum(axis=0) / max(1, len(own)) for own in _units(cloud)]
    return np.array([mean / norm if (norm := np.hypot(*mean)) > 1e-9 else np.zeros(2) for mean in means])


def pair_angles(cloud: Cloud) -> Array:
    """(C, C) the angle in degrees between the directions of each pair of classes; NaN for a class without one.

    Example:
        >>> pair_angles(Cloud("OPL", np.array([[2.0, 0.0], [0.0, 3.0]]), np.array([0, 1]), ("zero", "one")))
        array([[ 0., 90.],
               [90.,  0.]])
    """
    units = directions(cloud)
    units = np.where(units.any(axis=1, keepdims=True), units, np.nan)
    return np.asarray(np.degrees(np.arccos(np.clip(units @ units.T, -1, 1))))


def mean_angle(cloud: Cloud) -> float:
    """The mean angle in degrees between the directions of two classes; NaN if fewer than two classes have one.

    Example:
        >>> mean_angle(Cloud("OPL", np.array([[2.0, 0.0], [0.0, 3.0]]), np.array([0, 1]), ("zero", "one")))
        90.0
    """
    angles = pair_angles(cloud)[np.triu_indices(len(cloud.class_names), 1)]
    angles = angles[np.isfinite(angles)]
    return float(angles.mean()) if len(angles) else float("nan")


def draw(clouds: Sequence[Cloud]) -> "Figure":
    """A matplotlib figure in the paper's layout: a column per cloud, with features above and unit features below them.

    The unit features are a histogram of the angles of each class. A third row has the angle of each pair of classes.

    Args:
        clouds: must have the same classes; all histograms share one scale.

    Example:
        >>> cloud = Cloud("OPL", np.array([[2.0, 0.0], [0.0, 3.0]]), np.array([0, 1]), ("zero", "one"))
        >>> print(draw([cloud]).axes[0].get_title(loc="left"))
        OPL
        features
    """
    from matplotlib.figure import Figure

    names = _common_names(clouds)
    histograms, peak = _histograms(clouds)
    with paper():
        heights = (3.0, 2.5, 1.2 if len(names) <= FEW else 2.9)
        figure = Figure(figsize=(3.3 * len(clouds), sum(heights) + 0.9), layout="constrained")
        grid = figure.subplots(3, len(clouds), squeeze=False, height_ratios=heights).T
        for cloud, shares, (top, middle, bottom) in zip(clouds, histograms, grid, strict=True):
            _features(top, cloud)
            top.set_title(f"{print_label(cloud.label)}\nfeatures", loc="left")
            _ring.draw(middle, shares, directions(cloud), peak)
            middle.set_title("unit features, histogram of angles", loc="left")
            _ring.draw_pairs(bottom, pair_angles(cloud), names)
            bottom.set_title(_angle_words(cloud), loc="left")
        columns_below = legend_columns(names, 50 * len(clouds))
        figure.legend(handles=handles(names), loc="outside lower center", ncols=columns_below)
    return figure


def render(rows: Rows, order: Order) -> Rendering:
    """One figure per number of classes; as text, the mean angle of each row and, for few classes, of each pair."""
    found = clouds(rows)
    words = [f"{each.label}: mean angle between class directions {mean_angle(each):.1f} degrees" for each in found]
    for each in found:
        if len(each.class_names) <= FEW:
            words.append(f"{each.label}, pair by pair: {', '.join(_pairs(each))}")
    sizes = sorted({len(each.class_names) for each in found}, reverse=True)
    figures: dict[str, Figure] = {}
    behind: dict[str, list[Run]] = {}
    for size in sizes:
        ending = "" if size == sizes[0] else f"-{size}"
        some = [(each, runs[0]) for each, (_, runs) in zip(found, rows, strict=True) if len(each.class_names) == size]
        figures[ending], behind[ending] = draw([each for each, _ in some]), [run for _, run in some]
    return Rendering(figures, words, behind)


def _pairs(cloud: Cloud) -> list[str]:
    angles = pair_angles(cloud)
    named = combinations(enumerate(cloud.class_names), 2)
    return [f"{one} and {other} {angles[i, j]:.1f}" for (i, one), (j, other) in named]


def _units(cloud: Cloud) -> list[Array]:
    """The unit features of each class, without zero features, which have no direction."""
    features, labels = finite(cloud.features, cloud.labels)
    largest = np.abs(features).max(axis=1, initial=0)
    features, labels = features[largest > 0], labels[largest > 0]
    scaled = features / largest[largest > 0, None]  # so that squares of values such as 1e200 do not overflow
    units = scaled / np.hypot(*scaled.T)[:, None]
    return [units[labels == index] for index in range(len(cloud.class_names))]


def _histograms(clouds: Sequence[Cloud]) -> tuple[list[list[Array]], float]:
    """The histogram of each class of each cloud, and the fullest bin of all."""
    found = [[_ring.shares(own) for own in _units(cloud)] for cloud in clouds]
    return found, max(float(shares.max()) for each in found for shares in each) or 1.0


def _features(axes: "Axes", cloud: Cloud) -> None:
    for line in (axes.axhline, axes.axvline):
        line(0, color="0.85", linewidth=0.8, zorder=0)
    scatter(axes, cloud.features, cloud.labels)
    axes.set_aspect("equal", adjustable="datalim")


def _angle_words(cloud: Cloud) -> str:
    angle = mean_angle(cloud)
    return "no angle between classes" if np.isnan(angle) else f"angles between classes, mean {angle:.1f}°"


def _common_names(clouds: Sequence[Cloud]) -> tuple[str, ...]:
    if not clouds:
        raise OptionError("there is no cloud to draw: give at least one.")
    for cloud in clouds[1:]:
        if tuple(cloud.class_names) != tuple(clouds[0].class_names):
            raise OptionError(
                f"{cloud.label!r} and {clouds[0].label!r} have different classes: draw them in a figure each, or give "
                "both the same class names."
            )
    return tuple(clouds[0].class_names)
