"""Angles on the unit circle: a ray in each class's direction, and its histogram on the outside of the circle."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from .style import Array, Spec, color, numbers

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BINS = 72  # of 5 degrees each
RISE = 0.6  # how far the fullest bin extends beyond the circle
EDGE = 1.05 + RISE


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
    axes.set(xlim=(-EDGE, EDGE), ylim=(-EDGE, EDGE), aspect="equal")
    axes.set_axis_off()


def trace(histogram: Array, ray: Array, peak: float) -> Spec:
    """One class for plotly: a line from the center along its ray, then its bins, separated by gaps."""
    gap = np.full((1, 2), np.nan)
    bins = [part for outline in _outlines(histogram, peak) for part in (gap, outline)]
    points = np.concatenate([np.stack([np.zeros(2), ray]), *bins])
    x, y = numbers(points[:, 0]), numbers(points[:, 1])
    return {"type": "scatter", "mode": "lines", "x": x, "y": y, "fill": "toself", "hoverinfo": "name"}


def circle(axis: int) -> Spec:
    """The unit circle as a plotly shape."""
    corners = {"x0": -1, "x1": 1, "y0": -1, "y1": 1, "xref": f"x{axis}", "yref": f"y{axis}"}
    return {"type": "circle", **corners, "line": {"color": "rgba(127,127,127,0.6)", "width": 1}}


def _outlines(histogram: Array, peak: float) -> Array:
    """(K, 5, 2) the non-empty bins as closed outlines that start at the unit circle."""
    filled = np.flatnonzero(histogram)
    outer = 1 + RISE * histogram[filled] / peak
    start, stop = (2 * np.pi * (filled + step) / BINS for step in (0, 1))
    corners = [(start, 1), (start, outer), (stop, outer), (stop, 1), (start, 1)]
    return np.stack([np.stack([np.cos(angle) * r, np.sin(angle) * r], axis=1) for angle, r in corners], axis=1)
