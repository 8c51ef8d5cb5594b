"""Figure 5: pictures that the second model gets right and the first wrong, with the top-5 predictions of both."""

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import FolderError, OptionError
from ..results.runs import Rows, Run
from .rendering import Order, Rendering, arrays_of, sample_rows
from .style import ACCENT, Array, numbers, paper, print_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NEEDS = ("test",)
Guesses = tuple[tuple[str, float], ...]

SMALLEST = 96  # pixels on a page: smaller pictures are enlarged
ACROSS = 2  # pictures per row, in print


@dataclass(frozen=True, eq=False)
class Picture:
    """One picture, its class, and the predictions of two models.

    Args:
        pixels: (H, W, 3) or (H, W, 1), uint8.
        truth: the name of its class.
        before: the top predictions of the first model, each a class name and its probability.
        after: the top predictions of the second model.
    """

    pixels: Array
    truth: str
    before: Guesses
    after: Guesses

    def __post_init__(self) -> None:
        _check_pixels(self.pixels)


def pair_by_seed(before: Sequence[Run], after: Sequence[Run]) -> list[tuple[Run, Run]]:
    """Pairs of runs of two rows with the same seed, in the order of the second row."""
    first = {run.seed: run for run in before}
    return [(first[run.seed], run) for run in after if run.seed in first]


def corrections(before: Run, after: Run, limit: int = 12) -> list[Picture]:
    """Test pictures that the second run gets right and the first wrong: `find_corrected` on the arrays of both."""
    one, two = arrays_of(before), arrays_of(after)
    rows = sample_rows(one, "pixel")
    labels, old, old_p, new, new_p = (
        np.asarray(part)[rows] for part in (one["labels"], one["top5"], one["p5"], two["top5"], two["p5"])
    )
    count = 1 + max(int(np.max(part)) for part in (one["labels"], one["top5"], two["top5"]))
    return find_corrected(one["pixels"], labels, old, old_p, new, new_p, before.class_names(count), limit)


def find_corrected(
    pixels: Array,
    labels: Array,
    before_top5: Array,
    before_p5: Array,
    after_top5: Array,
    after_p5: Array,
    class_names: Sequence[str],
    limit: int = 12,
) -> list[Picture]:
    """The pictures that the second model gets right and the first wrong, sorted by the second's confidence.

    Args:
        pixels: (M, H, W, 1 or 3) uint8, of the first M of the N samples.
        labels: (N,) the true classes.
        before_top5: (N, K) the first model's top classes, best first.
        before_p5: (N, K) their probabilities.
        after_top5: (N, K) the second model's top classes, best first.
        after_p5: (N, K) their probabilities.
        class_names: one for each class.
        limit: the maximum number of pictures.

    Example:
        >>> best, p = np.array([[0, 1]]), np.array([[0.9, 0.1]])
        >>> pixels = np.zeros((1, 8, 8, 1), dtype=np.uint8)
        >>> [found] = find_corrected(pixels, np.array([1]), best, p, best[:, ::-1], p, ("cat", "dog"))
        >>> found.truth, found.before[0], found.after[0]
        ('dog', ('cat', 0.9), ('dog', 0.9))
    """
    guesses = (before_top5, before_p5, after_top5, after_p5)
    _check(pixels, labels, guesses, class_names, limit)
    labels, old, old_p, new, new_p = (np.asarray(part)[: len(pixels)] for part in (labels, *guesses))
    fixed = np.flatnonzero((new[:, 0] == labels) & (old[:, 0] != labels))
    surest = fixed[np.argsort(-new_p[fixed, 0], kind="stable")][:limit]
    return [
        Picture(
            np.asarray(pixels[i]),
            class_names[int(labels[i])],
            _named(old[i], old_p[i], class_names),
            _named(new[i], new_p[i], class_names),
        )
        for i in surest.tolist()
    ]


def draw(pictures: Sequence[Picture], names: tuple[str, str] = ("CE", "CE+OPL")) -> "Figure":
    """A matplotlib figure: each picture next to the predictions of both models, the true class in the accent color.

    Args:
        pictures: for example from `find_corrected`.
        names: the names of the two models.

    Example:
        >>> picture = Picture(np.zeros((8, 8, 1), dtype=np.uint8), "cat", (("dog", 0.9),), (("cat", 0.8),))
        >>> len(draw([picture]).axes)
        3
    """
    from matplotlib.figure import Figure

    _check_some(pictures)
    across = min(ACROSS, len(pictures))
    rows = -(-len(pictures) // across)
    with paper():
        height = 1.25 * rows + 0.1
        figure = Figure(figsize=(3.6 * across, height))
        edges = {"left": 0.01, "right": 0.99, "bottom": 0.05 / height, "top": 1 - 0.25 / height}
        grid = figure.add_gridspec(
            rows, 3 * across, width_ratios=(1, 1.3, 1.3) * across, wspace=0.08, hspace=0.3, **edges
        )
        for i, picture in enumerate(pictures):
            row, column = divmod(i, across)
            image, left, right = (figure.add_subplot(grid[row, 3 * column + part]) for part in range(3))
            _show(image, picture)
            for axes, name, guesses in ((left, names[0], picture.before), (right, names[1], picture.after)):
                _bars(axes, name, guesses, picture.truth)
    return figure


def png(pixels: Array) -> str:
    """Encode a picture as a PNG data URI; small ones are enlarged without blurring their pixels.

    Args:
        pixels: (H, W, 3) or (H, W, 1), uint8.

    Example:
        >>> png(np.zeros((32, 32, 3), dtype=np.uint8))[:22]
        'data:image/png;base64,'
    """
    from PIL import Image

    _check_pixels(pixels)
    height, width, channels = pixels.shape
    factor = -(-SMALLEST // min(height, width, SMALLEST))
    image = Image.fromarray(pixels[:, :, 0] if channels == 1 else np.ascontiguousarray(pixels))
    image = image.resize((factor * width, factor * height), Image.Resampling.NEAREST)
    file = io.BytesIO()
    image.save(file, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()


def page(pictures: Sequence[Picture]) -> list[dict[str, Any]]:
    """For a web page: each picture as `image` (a data URI), `truth`, `before` and `after` (lists of name, probability).

    Names are not escaped here; the page escapes them when it writes them.

    Args:
        pictures: for example from `find_corrected`.

    Example:
        >>> picture = Picture(np.zeros((8, 8, 1), dtype=np.uint8), "cat", (("dog", 0.9),), (("cat", 0.8),))
        >>> page([picture])[0]["before"]
        [['dog', 0.9]]
    """
    _check_some(pictures)
    return [
        {"image": png(one.pixels), "truth": one.truth, "before": _plain(one.before), "after": _plain(one.after)}
        for one in pictures
    ]


def render(rows: Rows, order: Order) -> Rendering:
    """For each row and its baseline, the pictures of the lowest seed that both have; no figure if none was corrected.

    The first figure has no suffix, the others that of their recipe.
    """
    by_recipe = {row.recipe: (row, runs) for row, runs in rows}
    figures: dict[str, Figure] = {}
    words: list[str] = []
    for after, second in rows:
        if after.baseline not in by_recipe:
            continue
        before, first = by_recipe[after.baseline]
        pairs = pair_by_seed(first, second)
        if not pairs:
            raise FolderError(f"{before.recipe} and {after.recipe} have no finished run of the same seed: finish one.")
        if pictures := corrections(*pairs[0]):
            figures[f"-{after.recipe}" if words else ""] = draw(pictures, (before.label, after.label))
        of = f"{after.label} gets right and {before.label} wrong, of the pictures that the runs of the first seed keep"
        words.append(f"{len(pictures)} shown that {of}")
    return Rendering(figures, words)


def _named(classes: Array, probabilities: Array, class_names: Sequence[str]) -> Guesses:
    return tuple((class_names[int(i)], float(p)) for i, p in zip(classes, probabilities, strict=True))


def _plain(guesses: Guesses) -> list[list[Any]]:
    return [[name, numbers(probability, 4)] for name, probability in guesses]


def _show(axes: "Axes", picture: Picture) -> None:
    axes.imshow(picture.pixels, cmap="gray", vmin=0, vmax=255, interpolation="nearest")
    axes.set_title(print_label(picture.truth, 18), fontsize=7, fontweight="bold", pad=3)
    axes.set_anchor("N")  # aligned with the top of the bars next to it
    axes.set_axis_off()


def _bars(axes: "Axes", name: str, guesses: Guesses, truth: str) -> None:
    for row, (guess, probability) in enumerate(guesses):
        true = guess == truth
        p = probability if np.isfinite(probability) else 0.0
        axes.barh(row, p, height=0.86, color=ACCENT if true else "0.7", alpha=0.45)
        weight = "bold" if true else "normal"
        axes.text(0.02, row, print_label(guess, 18), va="center", fontsize=6, fontweight=weight)
        axes.text(0.99, row, f"{100 * p:.0f} %", va="center", ha="right", fontsize=6)
    axes.set(xlim=(0, 1), ylim=(max(5, len(guesses)) - 0.5, -0.5))
    axes.set_title(print_label(name, 18), fontsize=7, pad=3)
    axes.set_axis_off()


def _check_pixels(pixels: Array) -> None:
    shape = np.shape(pixels)
    if len(shape) != 3 or shape[2] not in (1, 3) or 0 in shape or np.asarray(pixels).dtype != np.uint8:
        raise OptionError(
            f"a picture has shape {shape} and type {np.asarray(pixels).dtype}: give (height, width, 1 or 3) of uint8."
        )


def _check_some(pictures: Sequence[Picture]) -> None:
    if not pictures:
        raise OptionError("there is no picture to show: give at least one, or leave the figure out if none was mended.")


def _check(pixels: Array, labels: Array, guesses: tuple[Array, ...], class_names: Sequence[str], limit: int) -> None:
    shapes = {np.shape(part) for part in guesses}
    shape = np.shape(guesses[0])
    if len(shapes) > 1 or len(shape) != 2 or 0 in shape or np.shape(labels) != shape[:1]:
        raise OptionError(
            f"the guesses have shapes {[np.shape(part) for part in guesses]} and the labels {np.shape(labels)}: give "
            "labels (N,) and the classes and probabilities of both models, each (N, K)."
        )
    if len(pixels) > shape[0]:
        raise OptionError(f"there are {len(pixels)} pictures and {shape[0]} labels: give a label for each picture.")
    ids = np.concatenate([np.ravel(labels), np.ravel(guesses[0]), np.ravel(guesses[2])])
    if ids.min() < 0 or ids.max() >= len(class_names):
        wrong = ids.min() if ids.min() < 0 else ids.max()
        raise OptionError(f"class {wrong} has no name: there are {len(class_names)} class names; give one for each.")
    if limit < 0:
        raise OptionError(f"limit is {limit}: give how many pictures to show, 0 or more.")
