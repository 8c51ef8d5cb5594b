"""The cosines of all pairs of features as two histograms: pairs of one class, and pairs of two classes."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from markupsafe import Markup

from .points import Space, finite, thin_out
from .style import ACCENT, PALETTE, Array
from .svg import DataTable, Scale, drawing, element, short

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST = 1500  # features whose pairs are counted
BINS = 40
SAME, OTHER = ACCENT, PALETTE[2]
NAMES = ("same class", "different classes")
WIDTH, HEIGHT, MARGIN, BOTTOM, TOP = 520, 108, 12, 20, 26


class Cosines:
    """The cosines of all pairs of features: of one class, with mean s, and of two classes, with mean |cos| d."""

    def __init__(self, space: Space) -> None:
        units, labels = thin_out(*unit_features(space), MOST)
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

    @property
    def signed(self) -> bool:
        """Whether a cosine is negative."""
        return bool((self.other < 0).any() or (self.same < 0).any())


@dataclass(frozen=True, eq=False)
class Histogram:
    """The shares of pairs by cosine, for one model.

    Args:
        label: of the model.
        edges: (N + 1,) of the bins.
        same: (N,) shares of the pairs of one class.
        other: (N,) shares of the pairs of two classes.
        s: mean cosine of pairs of one class.
        d: mean |cosine| of pairs of two classes.
    """

    label: str
    edges: Array
    same: Array
    other: Array
    s: float
    d: float


def histograms(before: Space, after: Space) -> list[Histogram]:
    """The histograms of two models over the same bins, so that they can be compared."""
    both = [Cosines(space) for space in (before, after)]
    edges = np.linspace(-1 if any(cosines.signed for cosines in both) else 0, 1, BINS + 1)
    return [
        Histogram(
            space.label,
            edges,
            shares_of(cosines.same, edges),
            shares_of(cosines.other, edges),
            cosines.s,
            cosines.d,
        )
        for space, cosines in zip((before, after), both, strict=True)
    ]


def shares_of(values: Array, edges: Array) -> Array:
    """The share of the values in each bin; 0 everywhere without values."""
    shares: Array = np.histogram(values, edges)[0] / max(1, len(values))
    return shares


def highest(made: list[Histogram]) -> float:
    """The largest share in several histograms, the top of their common axis."""
    return (
        max(float(max(part.max(initial=0.0) for part in (histogram.same, histogram.other))) for histogram in made)
        or 1.0
    )


def to_svg(histogram: Histogram, top: float) -> Markup:
    """Both histograms of a model as a chart of the page; `top` is the share at the upper edge."""
    x = Scale(float(histogram.edges[0]), 1.0, MARGIN, WIDTH - MARGIN)
    y = Scale(0.0, top, HEIGHT - BOTTOM, TOP)
    parts = []
    for shares, mean, shade, name in (
        (histogram.other, histogram.d, OTHER, f"d {histogram.d:.2f}"),
        (histogram.same, histogram.s, SAME, f"s {histogram.s:.2f}"),
    ):
        steps = "".join(
            f"L{short(x.at(left))} {short(y.at(share))}L{short(x.at(right))} {short(y.at(share))}"
            for left, right, share in zip(histogram.edges, histogram.edges[1:], shares, strict=False)
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
    label = f"Cosines of pairs, {histogram.label}: s {histogram.s:.2f}, d {histogram.d:.2f}."
    return drawing(label, WIDTH, HEIGHT, *parts)


def data_table(histogram: Histogram) -> DataTable:
    """The shares of pairs in percent, bin by bin."""
    rows = [
        (f"{left:.2f} to {right:.2f}", f"{100 * same:.2f}", f"{100 * other:.2f}")
        for left, right, same, other in zip(
            histogram.edges, histogram.edges[1:], histogram.same, histogram.other, strict=False
        )
    ]
    return DataTable(f"Share of pairs in %, {histogram.label}", ("cosine", *NAMES), rows)


def draw_cosines(axes: "Axes", cosines: Cosines) -> None:
    """Both histograms in matplotlib."""
    edges = np.linspace(-1 if cosines.signed else 0, 1, BINS + 1)
    for values, mean, shade, name in (
        (cosines.same, cosines.s, SAME, "same class, mean s"),
        (cosines.other, cosines.d, OTHER, "other classes, mean |cos| d"),
    ):
        shares = shares_of(values, edges)
        axes.stairs(shares, edges, fill=True, color=shade, alpha=0.55, label=name)
        axes.plot([mean, mean], [0, 1.15 * shares.max()], color=shade, linewidth=1.4)
    axes.set_title(f"cosines of pairs: s {cosines.s:.2f}, d {cosines.d:.2f}", loc="left")
    axes.set_xlabel("cosine")
    axes.margins(x=0, y=0.45)  # the legend is above the bars
    axes.set_ylim(bottom=0)
    axes.legend(loc="upper left", fontsize=7)


def unit_features(space: Space) -> tuple[Array, Array]:
    """The finite features that are not zero, with length 1, and their labels."""
    features, labels = finite(space.features, space.labels)
    lengths = np.linalg.norm(features, axis=1)
    return features[lengths > 0] / lengths[lengths > 0, None], labels[lengths > 0]
