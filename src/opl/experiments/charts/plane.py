"""Figure 2: two-dimensional features, their angles on the unit circle as one histogram per class, and all pairs."""

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from ...errors import OptionError
from ..results.runs import Rows, Run
from .figure import DIVERGING, Axes, Figure, Order, Rendering, new_figure
from .points import Space, add_legend, finite, read_spaces, scatter
from .style import Array, color, print_label

FEW = 4  # classes up to which the text has the angle of each pair, and the matrix of their angles is small
BINS = 72  # of 5 degrees each
RISE = 0.6  # how far the fullest bin extends beyond the circle
EDGE = 1.05 + RISE
NUMBERED = 12  # classes up to which every angle is written as a number


def directions(cloud: Space) -> Array:
    """Return (C, 2): the direction of each class, the mean of its unit features scaled to length 1.

    A class without samples, with only zero features, or whose features cancel has no direction: its row is zero.

    Example:
        >>> directions(Space("CE", np.array([[2.0, 0.0], [0.0, 3.0]]), np.array([0, 1]), ("zero", "one", "two")))
        array([[1., 0.],
               [0., 1.],
               [0., 0.]])
    """
    means = [units.sum(axis=0) / max(1, len(units)) for units in _units(cloud)]
    return np.array([mean / norm if (norm := np.hypot(*mean)) > 1e-9 else np.zeros(2) for mean in means])


def pair_angles(cloud: Space) -> Array:
    """Return (C, C): the angles in degrees between the directions of classes; NaN for a class without one.

    Example:
        >>> pair_angles(Space("OPL", np.array([[2.0, 0.0], [0.0, 3.0]]), np.array([0, 1]), ("zero", "one")))
        array([[ 0., 90.],
               [90.,  0.]])
    """
    units = directions(cloud)
    units = np.where(units.any(axis=1, keepdims=True), units, np.nan)
    return np.asarray(np.degrees(np.arccos(np.clip(units @ units.T, -1, 1))))


def mean_angle(cloud: Space) -> float:
    """Return the mean angle in degrees between the directions of two classes; NaN if fewer than two classes have one.

    Example:
        >>> mean_angle(Space("OPL", np.array([[2.0, 0.0], [0.0, 3.0]]), np.array([0, 1]), ("zero", "one")))
        90.0
    """
    angles = pair_angles(cloud)[np.triu_indices(len(cloud.class_names), 1)]
    angles = angles[np.isfinite(angles)]
    return float(angles.mean()) if len(angles) else float("nan")


def angle_histogram(units: Array) -> Array:
    """Return (BINS,): the fraction of unit vectors in each bin, starting at 0 degrees; zeros for no vectors.

    Example:
        >>> angle_histogram(np.array([[1.0, 0.0], [0.0, 1.0]]))[[0, 18]]
        array([0.5, 0.5])
    """
    turns = np.arctan2(units[:, 1], units[:, 0]) / (2 * np.pi) % 1
    counts = np.bincount((turns * BINS).astype(int) % BINS, minlength=BINS)
    return np.asarray(counts / max(1, len(units)))


def draw(clouds: Sequence[Space]) -> Figure:
    """Draw a matplotlib figure in the paper's layout: one column per cloud, features above and unit features below.

    The unit features are a histogram of the angles of each class, on one scale for all clouds, which have the same
    classes. A third row has the angle of each pair of classes.
    """
    names = clouds[0].class_names
    histograms = [[angle_histogram(units) for units in _units(cloud)] for cloud in clouds]
    peak = max(float(shares.max()) for cloud in histograms for shares in cloud) or 1.0
    heights = (3.0, 2.5, 1.2 if len(names) <= FEW else 2.9)
    size = (3.3 * len(clouds), sum(heights) + 0.9)
    with new_figure(*size, 3, len(clouds), height_ratios=heights) as (figure, grid):
        for cloud, shares, (top, middle, bottom) in zip(clouds, histograms, grid.T, strict=True):
            for line in (top.axhline, top.axvline):
                line(0, color="0.85", linewidth=0.8, zorder=0)
            scatter(top, cloud.features, cloud.labels)
            top.set_aspect("equal", adjustable="datalim")
            top.set_title(f"{print_label(cloud.label)}\nfeatures", loc="left")
            _draw_circle(middle, shares, directions(cloud), peak)
            middle.set_title("unit features, histogram of angles", loc="left")
            _draw_pairs(bottom, pair_angles(cloud), names)
            angle = mean_angle(cloud)
            title = "no angle between classes" if np.isnan(angle) else f"angles between classes, mean {angle:.1f}°"
            bottom.set_title(title, loc="left")
        add_legend(figure, names, 50 * len(clouds))
    return figure


def render(rows: Rows, order: Order) -> Rendering:
    """Render one figure per number of classes; as text, the mean angle of each row and, for few classes, each pair."""
    clouds = read_spaces(rows)
    text = [f"{cloud.label}: mean angle between class directions {mean_angle(cloud):.1f} degrees" for cloud in clouds]
    for cloud in clouds:
        if len(cloud.class_names) <= FEW:
            angles, named = pair_angles(cloud), combinations(enumerate(cloud.class_names), 2)
            pairs = [f"{first} and {second} {angles[i, j]:.1f}" for (i, first), (j, second) in named]
            text.append(f"{cloud.label}, by pair: {', '.join(pairs)}")
    sizes = sorted({len(cloud.class_names) for cloud in clouds}, reverse=True)
    figures: dict[str, Figure] = {}
    drawn_from: dict[str, list[Run]] = {}
    for size in sizes:
        suffix = "" if size == sizes[0] else f"-{size}"
        of_size = zip(clouds, rows, strict=True)
        group = [(cloud, runs[0]) for cloud, (_, runs) in of_size if len(cloud.class_names) == size]
        figures[suffix], drawn_from[suffix] = draw([cloud for cloud, _ in group]), [run for _, run in group]
    return Rendering(figures, text, drawn_from)


def _units(cloud: Space) -> list[Array]:
    """Return the unit features of each class, without rows that are zero or not finite, which have no direction."""
    if np.shape(cloud.features)[1] != 2:
        raise OptionError(f"the features of {cloud.label!r} have shape {np.shape(cloud.features)}: pass (N, 2).")
    features, labels = finite(cloud.features, cloud.labels)
    largest = np.abs(features).max(axis=1, initial=0)
    features, labels = features[largest > 0], labels[largest > 0]
    scaled = features / largest[largest > 0, None]  # so that squares of values such as 1e200 do not overflow
    units = scaled / np.hypot(*scaled.T)[:, None]
    return [units[labels == index] for index in range(len(cloud.class_names))]


def _draw_circle(axes: Axes, histograms: Sequence[Array], rays: Array, peak: float) -> None:
    """Draw the circle of one cloud, with the direction of each class; the fraction `peak` has the full height."""
    from matplotlib.collections import PolyCollection
    from matplotlib.patches import Circle

    axes.add_patch(Circle((0, 0), 1, fill=False, edgecolor="0.6", linewidth=0.8))
    for index, (histogram, (x, y)) in enumerate(zip(histograms, rays, strict=True)):
        axes.plot([0, x], [0, y], color=color(index))
        outlines = list(_outlines(histogram, peak))
        axes.add_collection(PolyCollection(outlines, color=color(index), alpha=0.6, linewidths=0))
    for degrees in (0, 90, 180, 270):
        x, y = 0.8 * np.cos(np.radians(degrees)), 0.8 * np.sin(np.radians(degrees))
        behind = {"facecolor": "white", "edgecolor": "none", "pad": 1}  # classes often point in exactly this direction
        axes.text(x, y, f"{degrees}°", ha="center", va="center", color="0.4", fontsize=7, bbox=behind)
    axes.set(xlim=(-EDGE, EDGE), ylim=(-EDGE, EDGE), aspect="equal", anchor="W")
    axes.set_axis_off()


def _draw_pairs(axes: Axes, angles: Array, class_names: Sequence[str]) -> None:
    """Draw the angle between each pair of classes as the lower half of a matrix, white where it is a right angle."""
    count = len(class_names)
    below = np.tril(np.ones((count, count), dtype=bool), -1)
    degrees = np.where(below, angles, np.nan)[1:, :-1]
    axes.imshow(degrees, cmap=DIVERGING, vmin=0, vmax=180, interpolation="nearest")
    size = 8 if count <= 4 else 6 if count <= NUMBERED else 4
    for row, column in np.argwhere(np.isfinite(degrees)) if count <= NUMBERED else ():
        shade = "white" if abs(degrees[row, column] - 90) > 60 else "black"
        number = f"{degrees[row, column]:.0f}"
        axes.text(column, row, number, ha="center", va="center", fontsize=size, color=shade)
    names = [print_label(name, 12) for name in class_names]
    turn = 90 if max(map(len, names)) > (5 if count <= 4 else 3) else 0
    axes.set_xticks(range(count - 1), names[:-1], fontsize=size, rotation=turn)
    axes.set_yticks(range(count - 1), names[1:], fontsize=size)
    axes.tick_params(length=0)
    axes.set_anchor("W")
    axes.spines[:].set_visible(False)


def _outlines(histogram: Array, peak: float) -> Array:
    """Return (K, 5, 2): the non-empty bins as closed outlines that start at the unit circle."""
    filled = np.flatnonzero(histogram)
    outer = 1 + RISE * histogram[filled] / peak
    start, stop = (2 * np.pi * (filled + step) / BINS for step in (0, 1))
    corners = [(start, 1), (start, outer), (stop, outer), (stop, 1), (start, 1)]
    return np.stack([np.stack([np.cos(angle) * r, np.sin(angle) * r], axis=1) for angle, r in corners], axis=1)
