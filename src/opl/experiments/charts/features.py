"""Features of any dimension: their plane by PCA, and the cosines of all pairs within and between classes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..results.runs import Rows, Run
from .cosines import Cosines, draw_cosines, unit_features
from .figure import Figure, Order, Rendering, new_figure
from .plane import mean_angle
from .points import Space, add_legend, principal_plane, read_spaces, scatter, to_positions
from .samples import Samples, shared_samples
from .style import Array, print_label, shorten


@dataclass(frozen=True, eq=False)
class View:
    """The features of some test images of one model as points in the plane.

    Two-dimensional features are shown directly, others as unit features on their two principal components.
    """

    points: Array
    """(N, 2)."""
    positions: Array
    """(N, 2) in the chart of the page."""
    origin: Array | None
    """The position of the origin; None for features that are projected."""
    note: str
    """The mean angle between classes, or the share of the variance in the plane."""


def view(space: Space) -> View:
    """Return the features, which must be finite, as points of the page."""
    features = np.asarray(space.features, dtype=float)
    if features.shape[1] == 2:
        positions, angle = to_positions(features, origin=True), mean_angle(space)
        note = f"mean angle between classes {angle:.1f}°" if np.isfinite(angle) else ""
        return View(features, positions[:-1], positions[-1], note)
    lengths = np.linalg.norm(features, axis=1, keepdims=True)
    points, share = principal_plane(features / np.where(lengths > 0, lengths, 1.0))  # a zero row stays at the origin
    return View(points, to_positions(points), None, f"unit features, {100 * share:.0f} % of the variance")


def compare(before: Run, after: Run) -> tuple[Samples, list[View]]:
    """Return the test images that two runs share, and the features of both runs as points."""
    samples = shared_samples(before, after)
    spaces = [Space("", part, samples.labels, samples.class_names) for part in samples.features]
    return samples, [view(space) for space in spaces]


def script_values(samples: Samples, views: Sequence[View]) -> dict[str, Any]:
    """Return what the script of the page needs to mark an image on both sides and to show its picture."""
    return {
        "names": [shorten(name) for name in samples.class_names],
        "truth": samples.labels.tolist(),
        "predictions": [part.tolist() for part in samples.predictions],
        "picture": samples.pictures.tolist(),
        "rows": samples.rows.tolist(),
        "x": [np.round(side.positions[:, 0], 2).tolist() for side in views],
        "y": [np.round(side.positions[:, 1], 2).tolist() for side in views],
    }


def draw(spaces: Sequence[Space]) -> Figure:
    """Draw a matplotlib figure: one column per model, unit features by PCA above and the cosines of all pairs below.

    All panels of a row share their axes, so they can be compared.
    """
    size = (max(4.2, 3.3 * len(spaces)), 5.6)
    shared: dict[str, Any] = {"sharex": "row", "sharey": "row", "height_ratios": (3, 1.7)}
    with new_figure(*size, 2, len(spaces), **shared) as (figure, grid):
        for space, (top, bottom) in zip(spaces, grid.T, strict=True):
            units, labels = unit_features(space)
            points, share = principal_plane(units)
            scatter(top, points, labels)
            title = f"{print_label(space.label)}\nunit features by PCA ({share:.0%} of the variance)"
            top.set_title(title, loc="left")
            top.set_aspect("equal", adjustable="box")
            draw_cosines(bottom, Cosines(space))
        grid[1, 0].set_ylabel("share of pairs")
        add_legend(figure, max((space.class_names for space in spaces), key=len), 42 * len(spaces))
    return figure


def render(rows: Rows, order: Order) -> Rendering:
    """Render the features of the first seed of each row and, as text, their s and d."""
    spaces = read_spaces(rows)
    text = []
    for space, (_, runs) in zip(spaces, rows, strict=True):
        cosines = Cosines(space)
        text.append(f"{space.label}, test features of seed {runs[0].seed}: s {cosines.s:.3f}, d {cosines.d:.3f}")
    return Rendering({"": draw(spaces)}, text, {"": [runs[0] for _, runs in rows]})
