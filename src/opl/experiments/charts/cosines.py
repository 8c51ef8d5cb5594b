"""The cosines of all pairs of features as two histograms: pairs within a class, and pairs of different classes."""

from collections.abc import Sequence

import numpy as np
from markupsafe import Markup

from .figure import Axes
from .points import Space, finite, thin_out
from .style import ACCENT, PALETTE, Array
from .svg import DataTable, Scale, drawing, element, short

MOST = 1500  # features whose pairs are counted
BINS = 40
SAME, OTHER = ACCENT, PALETTE[2]
NAMES = ("same class", "different classes")
WIDTH, HEIGHT, MARGIN, BOTTOM, TOP = 520, 108, 12, 20, 26


class Cosines:
    """The cosines of all pairs of features: within a class, with mean s, and of two classes, with mean |cos| d.

    A mean without pairs is 0.
    """

    def __init__(self, space: Space) -> None:
        self.label = space.label
        units, labels = thin_out(*unit_features(space), MOST)
        pairs = np.triu_indices(len(units), 1)
        cosines, same_class = (units @ units.T)[pairs].clip(-1, 1), (labels[:, None] == labels)[pairs]
        self.same: Array = cosines[same_class]
        self.other: Array = cosines[~same_class]
        self.s = float(self.same.mean()) if len(self.same) else 0.0
        self.d = float(np.abs(self.other).mean()) if len(self.other) else 0.0

    def shares(self, edges: Array) -> tuple[Array, Array]:
        """Return the shares of the pairs within a class, and of two classes, in each bin; 0 without pairs."""
        same, other = (np.histogram(part, edges)[0] / max(1, len(part)) for part in (self.same, self.other))
        return same, other


def bins(models: Sequence[Cosines]) -> Array:
    """Return bin edges shared by several models, from -1 if a cosine is negative, so that they can be compared."""
    signed = any((part < 0).any() for cosines in models for part in (cosines.same, cosines.other))
    return np.linspace(-1 if signed else 0, 1, BINS + 1)


def highest(models: Sequence[Cosines]) -> float:
    """Return the largest share in the histograms of several models, the top of their common axis."""
    edges = bins(models)
    return max(float(part.max()) for cosines in models for part in cosines.shares(edges)) or 1.0


def to_svg(cosines: Cosines, edges: Array, top: float) -> Markup:
    """Draw both histograms of a model as a chart of the page; `top` is the share at the upper edge."""
    x = Scale(float(edges[0]), 1.0, MARGIN, WIDTH - MARGIN)
    y = Scale(0.0, top, HEIGHT - BOTTOM, TOP)
    parts = []
    same, other = cosines.shares(edges)
    for shares, mean, shade, name in (
        (other, cosines.d, OTHER, f"d {cosines.d:.2f}"),
        (same, cosines.s, SAME, f"s {cosines.s:.2f}"),
    ):
        steps = "".join(
            f"L{short(x.at(left))} {short(y.at(share))}L{short(x.at(right))} {short(y.at(share))}"
            for left, right, share in zip(edges, edges[1:], shares, strict=False)
        )
        path = f"M{short(x.start)} {short(y.start)}{steps}L{short(x.end)} {short(y.start)}Z"
        parts.append(element("path", d=path, fill=shade, fill_opacity=0.5, stroke=shade, stroke_width=1))
        at = short(x.at(mean))
        parts.append(element("line", x1=at, x2=at, y1=short(y.start), y2=TOP - 8, stroke=shade, stroke_width=2))
        anchor = "start" if x.at(mean) < 60 else "end" if shade == OTHER or x.at(mean) > WIDTH - 60 else "middle"
        parts.append(element("text", name, x=at, y=TOP - 12, text_anchor=anchor, class_="name"))
    ticks = (0.0, 0.5, 1.0) if x.low >= 0 else (-1.0, -0.5, 0.0, 0.5, 1.0)
    for tick in ticks:
        parts.append(element("text", f"{tick:g}", x=short(x.at(tick)), y=HEIGHT - BOTTOM + 14, text_anchor="middle"))
    parts.append(element("line", x1=x.start, x2=x.end, y1=y.start, y2=y.start, class_="rule"))
    label = f"Cosines of pairs, {cosines.label}: s {cosines.s:.2f}, d {cosines.d:.2f}."
    return drawing(label, WIDTH, HEIGHT, *parts)


def data_table(cosines: Cosines, edges: Array) -> DataTable:
    """Return the shares of pairs in percent, bin by bin."""
    rows = [
        (f"{left:.2f} to {right:.2f}", f"{100 * same:.2f}", f"{100 * other:.2f}")
        for left, right, same, other in zip(edges, edges[1:], *cosines.shares(edges), strict=False)
    ]
    return DataTable(f"Share of pairs in %, {cosines.label}", ("cosine", *NAMES), rows)


def draw_cosines(axes: Axes, cosines: Cosines) -> None:
    """Draw both histograms in matplotlib."""
    edges = bins([cosines])
    same, other = cosines.shares(edges)
    for shares, mean, shade, name in (
        (same, cosines.s, SAME, "same class, mean s"),
        (other, cosines.d, OTHER, "other classes, mean |cos| d"),
    ):
        axes.stairs(shares, edges, fill=True, color=shade, alpha=0.55, label=name)
        axes.plot([mean, mean], [0, 1.15 * shares.max()], color=shade, linewidth=1.4)
    axes.set_title(f"cosines of pairs: s {cosines.s:.2f}, d {cosines.d:.2f}", loc="left")
    axes.set_xlabel("cosine")
    axes.margins(x=0, y=0.45)  # the legend is above the bars
    axes.set_ylim(bottom=0)
    axes.legend(loc="upper left", fontsize=7)


def unit_features(space: Space) -> tuple[Array, Array]:
    """Return the finite non-zero features, scaled to length 1, and their labels."""
    features, labels = finite(space.features, space.labels)
    lengths = np.linalg.norm(features, axis=1)
    return features[lengths > 0] / lengths[lengths > 0, None], labels[lengths > 0]
