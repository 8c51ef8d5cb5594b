"""Angles on the unit circle: a ray in each class's direction, its histogram outside of the circle, and all pairs."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from .style import DIVERGING, Array, color, print_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BINS = 72  # of 5 degrees each
RISE = 0.6  # how far the fullest bin extends beyond the circle
EDGE = 1.05 + RISE
NUMBERED = 12  # classes up to which every angle is written as a number


def shares(units: Array) -> Array:
    """(BINS,) the fraction of unit vectors that point into each bin, starting at 0 degrees; zeros for no vectors.

    Example:
        >>> shares(np.array([[1.0, 0.0], [0.0, 1.0]]))[[0, 18]]
        array([0.5, 0.5])
    """
    turns = np.arctan2(units[:, 1], units[:, 0]) / (2 * np.pi) % 1
    counts = np.bincount((turns * BINS).astype(int) % BINS, minlength=BINS)
    return np.asarray(counts / max(1, len(units)))


def draw(axes: "Axes", histograms: Sequence[Array], rays: Array, peak: float) -> None:
    """Draw the circle of one cloud into matplotlib axes.

    Args:
        axes: an empty square.
        histograms: `shares` of each class.
        rays: (C, 2) the direction of each class.
        peak: the fraction that is drawn at full height; the same for all clouds, so that they can be compared.
    """
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


def draw_pairs(axes: "Axes", angles: Array, class_names: Sequence[str]) -> None:
    """Draw the angle between each pair of classes as the lower half of a matrix, white where it is a right angle.

    Args:
        axes: an empty square.
        angles: (C, C) in degrees; NaN for a class without a direction.
        class_names: one for each class.
    """
    count = len(class_names)
    below = np.tril(np.ones((count, count), dtype=bool), -1)
    shown = np.where(below, angles, np.nan)[1:, :-1]
    axes.imshow(shown, cmap=DIVERGING, vmin=0, vmax=180, interpolation="nearest")
    size = 8 if count <= 4 else 6 if count <= NUMBERED else 4
    for row, column in np.argwhere(np.isfinite(shown)) if count <= NUMBERED else ():
        shade = "white" if abs(shown[row, column] - 90) > 60 else "black"
        words = f"{shown[row, column]:.0f}"
        axes.text(column, row, words, ha="center", va="center", fontsize=size, color=shade)
    names = [print_label(name, 12) for name in class_names]
    turn = 90 if max(map(len, names)) > (5 if count <= 4 else 3) else 0
    axes.set_xticks(range(count - 1), names[:-1], fontsize=size, rotation=turn)
    axes.set_yticks(range(count - 1), names[1:], fontsize=size)
    axes.tick_params(length=0)
    axes.set_anchor("W")
    axes.spines[:].set_visible(False)


def _outlines(histogram: Array, peak: float) -> Array:
    """(K, 5, 2) the non-empty bins as closed outlines that start at the unit circle."""
    filled = np.flatnonzero(histogram)
    outer = 1 + RISE * histogram[filled] / peak
    start, stop = (2 * np.pi * (filled + step) / BINS for step in (0, 1))
    corners = [(start, 1), (start, outer), (stop, outer), (stop, 1), (start, 1)]
    return np.stack([np.stack([np.cos(angle) * r, np.sin(angle) * r], axis=1) for angle, r in corners], axis=1)
