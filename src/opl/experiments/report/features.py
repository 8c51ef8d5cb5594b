"""Features before and after, as points in the plane: directly or by PCA; both pictures show the same test images."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..charts import lda
from ..charts.plane import Cloud, mean_angle
from ..charts.style import color, shorten
from ..item import Row
from ..results.runs import BROKEN, Run
from .context import Experiment
from .embedded import embed
from .figure import absent, data_table, drawing, figure
from .html_table import cell, heading, row
from .images import sheet, small_size
from .legend import filters
from .markup import Markup, join, tag
from .samples import Samples, shared_samples
from .svg import Scale, short, symbols_path

Array = NDArray[Any]
SIDE, MARGIN = 400, 12
ACROSS = 20  # pictures in a row of the sheet
PLANE = "The features have two dimensions: this is the plane itself, with the origin at the cross."
PCA = (
    "The features of each network by its own two principal components; the caption says how much of the spread is left."
)
HINT = (
    "Point at an image, or use the arrow keys: it is marked on both sides, and its picture is shown where it was kept."
)


class Projection(NamedTuple):
    """Points in the plane, and what the picture of them should say."""

    points: Array
    words: str
    origin: bool
    """Whether the origin means something."""


def project(features: Array) -> Projection:
    """Two-dimensional features as they are, others onto their two principal components.

    Example:
        >>> shown = project(np.array([[0.0, 0.0, 5.0], [3.0, 0.0, 5.0], [0.0, 4.0, 5.0]]))
        >>> shown.points.shape, shown.words
        ((3, 2), '100 % of the spread')
    """
    if features.shape[1] == 2:
        return Projection(features, "", True)
    centered = features - features.mean(axis=0)
    _, sizes, directions = np.linalg.svd(centered, full_matrices=False)
    points = centered @ directions[:2].T
    points = np.pad(points, ((0, 0), (0, 2 - points.shape[1])))
    total = float(np.square(sizes).sum())
    share = float(np.square(sizes[:2]).sum()) / total if total else 1.0
    return Projection(points, f"{100 * share:.0f} % of the spread", False)


def section(experiment: Experiment, place: int) -> Markup | None:
    """The features of one comparison: the first seed of which both runs keep them."""
    base, own = experiment.pairs[place]
    runs = _runs(experiment, base, own)
    if runs is None:
        return None
    try:
        samples = shared_samples(*runs)
        sides = [_side(part, samples) for part in samples.features]
    except BROKEN as error:
        return absent(f"The features cannot be drawn: {error}")
    key = f"features-{experiment.name_pair(place)}"
    return experiment.room.take(
        join(
            tag("p", PLANE if sides[0].origin else PCA, " ", HINT, class_="lead"),
            filters(samples.class_names, "Classes", key),
            tag("div", *_panels(key, (base, own), sides, samples), _glass(key), class_="grid looking", data_group=key),
            embed(key, _values(samples, sides)),
            _sheet(key, samples),
            tag("p", f"{len(samples.rows)} test images, seed {runs[0].seed}.", class_="note"),
        ),
        "The picture of the features",
    )


def novel(experiment: Experiment, place: int) -> Markup | None:
    """Classes that were not in the training set, by LDA, if evaluated with `opl evaluate RUN novel`."""
    found = []
    for row_of in experiment.pairs[place]:
        run = next((run for run in experiment.group.finished(row_of) if run.arrays("novel")), None)
        if run:
            found.append(lda.panel(row_of.label, run, "novel"))
    if not found:
        return None
    key = f"novel-{experiment.name_pair(place)}"
    names = max((panel.class_names for panel in found), key=len)
    drawn = []
    for panel in found:
        kept = np.isfinite(panel.points).all(axis=1)
        points = _fit(panel.points[kept])
        caption = join(panel.label, tag("span", f" separation {panel.separation:.2f}", class_="quiet"))
        marks = _marks(points, panel.labels[kept], len(panel.class_names), "")
        label = f"Classes that were never trained on, {panel.label}: separation {panel.separation:.2f}."
        head, body = _class_rows(panel.points[kept], panel.labels[kept], panel.class_names)
        drawn.append(figure(caption, drawing(label, SIDE, SIDE, marks), data_table(label, head, body)))
    title = tag("h4", "Classes that were never trained on, by LDA")
    part = join(title, filters(names, "Classes", key), tag("div", *drawn, class_="grid two", data_group=key))
    return experiment.room.take(part, "The picture of classes that were never trained on")


def has_features(experiment: Experiment, place: int) -> bool:
    """Whether both rows of a comparison keep features of the same seed."""
    return _runs(experiment, *experiment.pairs[place]) is not None


def _runs(experiment: Experiment, base: Row, own: Row) -> tuple[Run, Run] | None:
    """The runs of the first seed of which both rows keep features."""
    before = {run.seed: run for run in experiment.group.finished(base) if _has_features(run)}
    found = [run for run in experiment.group.finished(own) if run.seed in before and _has_features(run)]
    return (before[found[0].seed], found[0]) if found else None


def _has_features(run: Run) -> bool:
    arrays = run.arrays()
    return np.ndim(arrays.get("features", ())) == 2 and np.ndim(arrays.get("labels", ())) == 1


def _side(features: Array, samples: Samples) -> Projection:
    found = project(features)
    if not found.origin:
        return found
    angle = mean_angle(Cloud("", features, samples.labels, samples.class_names))
    return found._replace(words=f"mean angle between classes {angle:.1f}°" if np.isfinite(angle) else "")


def _fit(points: Array, origin: bool = False) -> Array:
    """Places in the square picture, with the same scale in both directions."""
    held = np.concatenate([points, np.zeros((1, 2))]) if origin else points
    low, high = held.min(axis=0), held.max(axis=0)
    middle, half = (low + high) / 2, max(float((high - low).max()) / 2, 1e-9)
    x = Scale(middle[0] - half, middle[0] + half, MARGIN, SIDE - MARGIN)
    y = Scale(middle[1] - half, middle[1] + half, SIDE - MARGIN, MARGIN)
    return np.array([(x.at(across), y.at(up)) for across, up in held.tolist()])


def _panels(key: str, rows: tuple[Row, Row], sides: list[Projection], samples: Samples) -> list[Markup]:
    drawn = []
    for side, (row_of, found) in enumerate(zip(rows, sides, strict=True)):
        fitted = _fit(found.points, found.origin)
        origin = _cross(fitted[-1]) if found.origin else None
        points = fitted[: len(found.points)]
        marks = _marks(points, samples.labels, len(samples.class_names), f"{key}-{side}")
        ring = tag("circle", r=7, class_="ring", cx=-20, cy=-20)
        label = f"Features of {len(points)} test images, {row_of.label}{', ' if found.words else ''}{found.words}."
        content = [part for part in (origin, marks, ring) if part]
        chart = drawing(label, SIDE, SIDE, *content, points=key, side=side)
        head, body = _class_rows(found.points, samples.labels, samples.class_names)
        caption = join(row_of.label, tag("span", f" {found.words}", class_="quiet"))
        drawn.append(figure(caption, chart, data_table(label, head, body)))
    return drawn


def _cross(place: Array) -> Markup:
    x, y = map(short, place.tolist())
    lines = [tag("line", x1=0, x2=SIDE, y1=y, y2=y), tag("line", x1=x, x2=x, y1=0, y2=SIDE)]
    return tag("g", *lines, class_="origin", aria_hidden="true")


def _marks(points: Array, labels: Array, classes: int, key: str) -> Markup:
    """One path for each class."""
    paths = []
    for look in range(classes):
        own = points[labels == look].tolist()
        if own:
            paths.append(tag("path", d=symbols_path(own, look), fill=color(look), stroke=color(look), data_series=look))
    return tag("g", *paths, class_="cloud", id=key or None)


def _class_rows(points: Array, labels: Array, names: tuple[str, ...]) -> tuple[list[Markup], list[Markup]]:
    """The middle and the spread of each class."""
    head = [heading(word) for word in ("class", "images", "middle, x", "middle, y", "spread")]
    body = []
    for look, name in enumerate(names):
        own = points[labels == look]
        if len(own):
            middle, spread = own.mean(axis=0), float(np.sqrt(own.var(axis=0).sum()))
            values = (str(len(own)), f"{middle[0]:.3g}", f"{middle[1]:.3g}", f"{spread:.3g}")
            words = ("images", "middle, x", "middle, y", "spread")
            body.append(row(name, *(cell(word, value) for word, value in zip(words, values, strict=True))))
    return head, body


def _values(samples: Samples, sides: list[Projection]) -> dict[str, Any]:
    places = [_fit(found.points, found.origin)[: len(found.points)] for found in sides]
    return {
        "names": [shorten(name) for name in samples.class_names],
        "truth": samples.labels.tolist(),
        "guesses": [each.tolist() for each in samples.guesses],
        "picture": samples.pictures.tolist(),
        "rows": samples.rows.tolist(),
        "x": [np.round(place[:, 0], 2).tolist() for place in places],
        "y": [np.round(place[:, 1], 2).tolist() for place in places],
    }


def _glass(key: str) -> Markup:
    """Where the picture of the image pointed at is shown."""
    canvas = tag("canvas", width=120, height=120, data_canvas=key, hidden=True)
    words = tag("p", "Point at an image.", data_said=key)
    return tag("div", canvas, words, class_="glass")


def _sheet(key: str, samples: Samples) -> Markup | None:
    if not len(samples.pixels):
        return None
    _, height, width, _ = samples.pixels.shape
    across, down = small_size(width, height)
    size = {"data_across": ACROSS, "data_width": across, "data_height": down}
    return tag("img", src=sheet(samples.pixels, ACROSS), id=f"sheet-{key}", alt="", hidden=True, **size)
