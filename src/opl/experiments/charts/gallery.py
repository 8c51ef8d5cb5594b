"""Figure 5: test images that the second model fixes or breaks, and what changes in the confusion matrix."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from ...errors import FolderError, OptionError
from ..results.runs import Rows, Run
from .figure import Axes, Figure, Order, Rendering, paper
from .samples import arrays_of, pair_by_seed, sample_rows
from .style import ACCENT, Array, print_label, split_common

PRINTED = 6  # pictures of each direction, in a file
ACROSS = 2  # pictures per row
HEAD = 0.36  # inches above the pictures of a direction
WIDTH, HEIGHT = 3.6, 1.3  # inches of a picture with its predictions
CONFUSIONS = 10  # changed kinds of mistakes that are listed

Predictions = tuple[tuple[str, float], ...]


@dataclass(frozen=True, eq=False)
class Picture:
    """One picture, the name of its class, and the predictions of two models: class names and probabilities."""

    pixels: Array
    """(H, W, 3) or (H, W, 1), uint8."""
    truth: str
    before: Predictions
    after: Predictions

    def __post_init__(self) -> None:
        shape, kind = np.shape(self.pixels), np.asarray(self.pixels).dtype
        if len(shape) != 3 or shape[2] not in (1, 3) or 0 in shape or kind != np.uint8:
            raise OptionError(f"a picture has shape {shape} and type {kind}: pass (height, width, 1 or 3) of uint8.")


class Changes(NamedTuple):
    """The number of test images that a second model fixes, and that it breaks (right before, wrong after)."""

    fixed: int
    broken: int
    total: int


class Confusion(NamedTuple):
    """How often a class is mistaken for another, before and after."""

    truth: str
    predicted: str
    before: int
    after: int


def is_comparable(before: Run, after: Run) -> bool:
    """Return whether two runs have predictions for the same test images."""
    both = before.arrays(), after.arrays()
    if not all(np.ndim(arrays.get("top5", ())) == 2 and np.ndim(arrays.get("labels", ())) == 1 for arrays in both):
        return False
    same = np.array_equal(both[0]["labels"], both[1]["labels"])
    return bool(same and len(both[0]["labels"]) == len(both[0]["top5"]) == len(both[1]["top5"]) > 0)


def count_changes(before: Run, after: Run) -> Changes:
    """Count what changed over all test images of two runs."""
    labels = np.asarray(arrays_of(before)["labels"])
    old, new = (np.asarray(arrays_of(run)["top5"])[:, 0] == labels for run in (before, after))
    return Changes(int((~old & new).sum()), int((old & ~new).sum()), len(labels))


def find_fixed(before: Run, after: Run, limit: int = 12) -> list[Picture]:
    """Find test images that the second run gets right and the first wrong, sorted by the second run's confidence."""
    first, second = arrays_of(before), arrays_of(after)
    if not np.array_equal(first["labels"], second["labels"]):
        raise FolderError(
            f"{before.where} and {after.where} were tested on different images: run opl evaluate RUN geometry for both."
        )
    rows = sample_rows(first, "pixel")
    labels, old, old_p, new, new_p = (
        np.asarray(part)[rows] for part in (first["labels"], first["top5"], first["p5"], second["top5"], second["p5"])
    )
    names = before.class_names(1 + max(int(np.max(part)) for part in (first["labels"], first["top5"], second["top5"])))
    fixed = np.flatnonzero((new[:, 0] == labels) & (old[:, 0] != labels))
    surest = fixed[np.argsort(-new_p[fixed, 0], kind="stable")][:limit]
    return [
        Picture(
            np.asarray(first["pixels"][i]),
            names[int(labels[i])],
            _with_names(old[i], old_p[i], names),
            _with_names(new[i], new_p[i], names),
        )
        for i in surest.tolist()
    ]


def find_broken(before: Run, after: Run, limit: int = 12) -> list[Picture]:
    """Find test images that the first run gets right and the second wrong, sorted by the first run's confidence."""
    return [
        replace(picture, before=picture.after, after=picture.before) for picture in find_fixed(after, before, limit)
    ]


def confusion_matrix(runs: Sequence[Run], classes: int) -> Array:
    """Count in (classes, classes) how often the row's class was predicted as the column's, in all runs together."""
    counts = np.zeros((classes, classes), dtype=np.int64)
    for run in runs:
        arrays = run.arrays()
        np.add.at(counts, (np.asarray(arrays["labels"], dtype=int), np.asarray(arrays["top5"])[:, 0].astype(int)), 1)
    return counts


def find_changed_confusions(pairs: Sequence[tuple[Run, Run]]) -> list[Confusion]:
    """Find the mistakes whose number changed most, over all pairs of runs together."""
    arrays = [run.arrays() for pair in pairs for run in pair]
    classes = 1 + max(int(np.max(outputs[name])) for outputs in arrays for name in ("labels", "top5"))
    before, after = (confusion_matrix([pair[side] for pair in pairs], classes) for side in (0, 1))
    change = after - before
    np.fill_diagonal(change, 0)
    names = pairs[0][0].class_names(classes)
    largest = np.argsort(-np.abs(change), axis=None, kind="stable")[:CONFUSIONS]
    cells = [divmod(int(index), classes) for index in largest if change.flat[index]]
    return [Confusion(names[row], names[column], int(before[row, column]), int(after[row, column]))
            for row, column in cells]  # fmt: skip


def draw(parts: Mapping[str, Sequence[Picture]], names: tuple[str, str] = ("CE", "CE+OPL")) -> Figure:
    """Draw a matplotlib figure: each picture next to the predictions of both models, true classes in the accent color.

    `parts` are pictures by their heading, such as fixed and broken; at least one part has pictures.
    """
    import matplotlib.figure

    with paper():
        rows = sum(-(-len(part) // ACROSS) for part in parts.values())
        figure = matplotlib.figure.Figure(figsize=(WIDTH * ACROSS, HEAD * len(parts) + HEIGHT * rows))
        top = figure.get_figheight()
        for heading, part in parts.items():
            title = heading if part else f"{heading}, none with a picture"
            x, y = 0.06 / (WIDTH * ACROSS), (top - 0.12) / figure.get_figheight()
            figure.text(x, y, print_label(title, 100, 100), va="top", fontsize=9, fontweight="bold")
            for i, picture in enumerate(part):
                row, column = divmod(i, ACROSS)
                _draw_picture(figure, picture, names, (WIDTH * column, top - HEAD - HEIGHT * (row + 1)))
            top -= HEAD + HEIGHT * -(-len(part) // ACROSS)
    return figure


def render(rows: Rows, order: Order) -> Rendering:
    """Render for each row and its baseline what was fixed and broken in the runs of the lowest seed that both have.

    The first figure has no suffix, the others are suffixed by their recipe; rows without any change have no figure.
    """
    by_recipe = {row.recipe: (row, runs) for row, runs in rows}
    figures: dict[str, Figure] = {}
    text: list[str] = []
    drawn_from: dict[str, tuple[Run, Run]] = {}
    for after, second in rows:
        if after.baseline not in by_recipe:
            continue
        before, first = by_recipe[after.baseline]
        pairs = pair_by_seed(first, second)
        if not pairs:
            raise FolderError(
                f"{before.recipe} and {after.recipe} have no finished run with the same seed: finish one."
            )
        common, names = split_common(before.label, after.label)
        parts = _parts(*pairs[0], names)
        suffix = f"-{after.recipe}" if text else ""
        if any(parts.values()):
            figures[suffix], drawn_from[suffix] = draw(parts, names), pairs[0]
        start = f"{common}: " if common else ""
        text += [f"{start}{heading}, seed {pairs[0][1].seed}; {len(part)} shown" for heading, part in parts.items()]
    return Rendering(figures, text, drawn_from)


def _parts(before: Run, after: Run, names: tuple[str, str]) -> dict[str, list[Picture]]:
    """Return the fixed and the broken pictures, by headings that count them over all test images."""
    changes, versus = count_changes(before, after), f"{names[1]} vs {names[0]}"
    of = f"of {changes.total:,} test images (most confident first)"
    return {
        f"{versus}: fixes {changes.fixed:,} {of}": find_fixed(before, after, PRINTED),
        f"{versus}: breaks {changes.broken:,} {of}": find_broken(before, after, PRINTED),
    }


def _with_names(classes: Array, probabilities: Array, class_names: Sequence[str]) -> Predictions:
    return tuple((class_names[int(i)], float(p)) for i, p in zip(classes, probabilities, strict=True))


def _draw_picture(figure: Figure, picture: Picture, names: tuple[str, str], corner: tuple[float, float]) -> None:
    """Draw a picture and both predictions; `corner` is the lower left corner, in inches."""
    width, height = figure.get_size_inches()
    x, y = corner
    left, bars, tall = 0.06, 1.18, HEIGHT - 0.3
    widths = {left: 1.0, 1.12: bars, 1.12 + bars + 0.08: bars}  # by distance from the left edge
    image, first, second = (
        figure.add_axes(((x + start) / width, (y + 0.06) / height, wide / width, tall / height))
        for start, wide in widths.items()
    )
    image.imshow(picture.pixels, cmap="gray", vmin=0, vmax=255, interpolation="nearest")
    image.set_title(print_label(picture.truth, 16), fontsize=7, fontweight="bold", pad=3)
    image.set_anchor("N")  # aligned with the top of the bars next to it
    image.set_axis_off()
    for axes, name, predictions in ((first, names[0], picture.before), (second, names[1], picture.after)):
        _draw_bars(axes, name, predictions, picture.truth)


def _draw_bars(axes: Axes, name: str, predictions: Predictions, truth: str) -> None:
    for row, (predicted, probability) in enumerate(predictions):
        right = predicted == truth
        p = probability if np.isfinite(probability) else 0.0
        axes.barh(row, p, height=0.86, color=ACCENT if right else "0.7", alpha=0.45)
        weight = "bold" if right else "normal"
        axes.text(0.02, row, print_label(predicted, 16), va="center", fontsize=6, fontweight=weight)
        axes.text(0.99, row, f"{100 * p:.0f} %", va="center", ha="right", fontsize=6)
    axes.set(xlim=(0, 1), ylim=(max(5, len(predictions)) - 0.5, -0.5))
    axes.set_title(print_label(name, 22), fontsize=7, pad=3)
    axes.set_axis_off()
