"""Features of any dimension: their directions by PCA, and the cosines of all pairs within and between classes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import OptionError
from ..results.runs import Rows
from ._points import finite, handles, legend_columns, scatter, thin_out
from .rendering import Order, Rendering, arrays_of, sample_rows
from .style import ACCENT, PALETTE, Array, paper, print_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NEEDS = ("test",)
MOST = 1500  # features whose pairs are counted
BINS = 40
SAME, OTHER = ACCENT, PALETTE[2]


@dataclass(frozen=True, eq=False)
class Space:
    """The features of one model.

    Args:
        label: name of the model, for example "CE+OPL".
        features: (N, D), at least one; rows that are not finite, and zero rows, have no direction and take no part.
        labels: (N,), integer class ids.
        class_names: one for each class.
    """

    label: str
    features: Array
    labels: Array
    class_names: tuple[str, ...]

    def __post_init__(self) -> None:
        if np.ndim(self.features) != 2 or np.shape(self.labels) != np.shape(self.features)[:1] or not len(self.labels):
            raise OptionError(
                f"the features of {self.label!r} have shape {np.shape(self.features)} and the labels "
                f"{np.shape(self.labels)}: give (N, D) and (N,), at least one row."
            )


class Cosines:
    """The cosines of all pairs of two features: of the same class, with mean s, and of others, with mean |cos| d."""

    def __init__(self, space: Space) -> None:
        units, labels = thin_out(*_units(space), MOST)
        pairs = np.triu_indices(len(units), 1)
        cosines, alike = (units @ units.T)[pairs], (labels[:, None] == labels)[pairs]
        self.same: Array = cosines[alike].clip(-1, 1)
        self.other: Array = cosines[~alike].clip(-1, 1)

    @property
    def s(self) -> float:
        """The mean over pairs of one class; 0 without a pair."""
        return float(self.same.mean()) if len(self.same) else 0.0

    @property
    def d(self) -> float:
        """The mean of |cos| over pairs of two classes; 0 without a pair."""
        return float(np.abs(self.other).mean()) if len(self.other) else 0.0


def spaces(rows: Rows) -> list[Space]:
    """The test features of each row's first run."""
    found = []
    for row, runs in rows:
        arrays = arrays_of(runs[0])
        labels = np.asarray(arrays["labels"])
        names = runs[0].class_names(int(labels.max(initial=0)) + 1)
        found.append(Space(row.label, np.asarray(arrays["features"]), labels[sample_rows(arrays, "feature")], names))
    return found


def project(space: Space) -> tuple[Array, Array, float]:
    """The unit features in the plane of their two principal components: points, labels, and the part of the variance.

    The larger end of each axis is positive, so that equal features give equal points.

    Example:
        >>> points, _, part = project(Space("CE", np.array([[2.0, 0, 0], [0, 3, 0]]), np.array([0, 1]), ("a", "b")))
        >>> np.abs(points).round(3).tolist(), round(part, 3)
        ([[0.707, 0.0], [0.707, 0.0]], 1.0)
    """
    units, labels = _units(space)
    centered = units - units.mean(axis=0) if len(units) else units
    _, lengths, axes = np.linalg.svd(centered, full_matrices=False)
    points = centered @ axes[:2].T
    points = np.pad(points, ((0, 0), (0, 2 - points.shape[1])))
    ends = np.abs(points).argmax(axis=0) if len(points) else np.zeros(2, dtype=int)
    signs = np.where(points[ends, range(2)] < 0, -1.0, 1.0) if len(points) else 1.0
    whole = float(np.square(lengths).sum())
    return points * signs, labels, float(np.square(lengths[:2]).sum()) / whole if whole else 1.0


def draw(spaces: Sequence[Space]) -> "Figure":
    """A matplotlib figure: a column per model, with the directions of its features above and their cosines below.

    Args:
        spaces: for example those of CE and of CE+OPL; all panels of a row share their axes, so they can be compared.

    Example:
        >>> space = Space("OPL", np.array([[2.0, 0.0], [0.0, 3.0]]), np.array([0, 1]), ("zero", "one"))
        >>> print(draw([space]).axes[1].get_title(loc="left"))
        cosines of pairs: s 0.00, d 0.00
    """
    from matplotlib.figure import Figure

    if not spaces:
        raise OptionError("there are no features to draw: give those of at least one model.")
    names = max((space.class_names for space in spaces), key=len)
    with paper():
        figure = Figure(figsize=(max(4.2, 3.3 * len(spaces)), 5.6), layout="constrained")
        shared: dict[str, Any] = {"sharex": "row", "sharey": "row", "height_ratios": (3, 1.7)}
        upper, lower = figure.subplots(2, len(spaces), squeeze=False, **shared)
        for space, top, bottom in zip(spaces, upper, lower, strict=True):
            _draw_directions(top, space)
            _draw_cosines(bottom, space)
        lower[0].set_ylabel("share of pairs")
        figure.legend(handles=handles(names), loc="outside lower center", ncols=legend_columns(names, 42 * len(spaces)))
    return figure


def render(rows: Rows, order: Order) -> Rendering:
    """The features of the first seed of each row; as text, their s and d."""
    found = spaces(rows)
    words = []
    for space, (_, runs) in zip(found, rows, strict=True):
        cosines = Cosines(space)
        words.append(f"{space.label}, test features of seed {runs[0].seed}: s {cosines.s:.3f}, d {cosines.d:.3f}")
    return Rendering({"": draw(found)}, words, {"": [runs[0] for _, runs in rows]})


def _units(space: Space) -> tuple[Array, Array]:
    features, labels = finite(space.features, space.labels)
    lengths = np.linalg.norm(features, axis=1)
    return features[lengths > 0] / lengths[lengths > 0, None], labels[lengths > 0]


def _draw_directions(axes: "Axes", space: Space) -> None:
    points, labels, part = project(space)
    scatter(axes, points, labels)
    axes.set_title(f"{print_label(space.label)}\nunit features by PCA ({part:.0%} of the variance)", loc="left")
    axes.set_aspect("equal", adjustable="box")


def _draw_cosines(axes: "Axes", space: Space) -> None:
    cosines = Cosines(space)
    edges = np.linspace(-1 if (cosines.other < 0).any() or (cosines.same < 0).any() else 0, 1, BINS + 1)
    for values, mean, shade, name in (
        (cosines.same, cosines.s, SAME, "same class, mean s"),
        (cosines.other, cosines.d, OTHER, "other classes, mean |cos| d"),
    ):
        shares = np.histogram(values, edges)[0] / max(1, len(values))
        axes.stairs(shares, edges, fill=True, color=shade, alpha=0.55, label=name)
        axes.plot([mean, mean], [0, 1.15 * shares.max()], color=shade, linewidth=1.4)
    axes.set_title(f"cosines of pairs: s {cosines.s:.2f}, d {cosines.d:.2f}", loc="left")
    axes.set_xlabel("cosine")
    axes.margins(x=0, y=0.45)  # the legend is above the bars
    axes.set_ylim(bottom=0)
    axes.legend(loc="upper left", fontsize=7)
