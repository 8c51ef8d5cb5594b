"""Figure 5: pictures that the second model fixes and pictures that it breaks, with the top-5 predictions of both."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...errors import FolderError, OptionError
from ..results.runs import Rows, Run
from ._picture import HEIGHT, WIDTH, Guesses, Picture, place
from .rendering import Order, Rendering, arrays_of, sample_rows
from .style import Array, paper, print_label

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NEEDS = ("test",)
PRINTED = 6  # pictures of each direction, in print
ACROSS = 2  # pictures per row
HEAD = 0.36  # inches above the pictures of a direction


class Changes(NamedTuple):
    """How many of the test pictures a second model fixes, and how many it breaks: right before and wrong after."""

    fixed: int
    broken: int
    total: int


def pair_by_seed(before: Sequence[Run], after: Sequence[Run]) -> list[tuple[Run, Run]]:
    """Pairs of runs of two rows with the same seed, in the order of the second row."""
    first = {run.seed: run for run in before}
    return [(first[run.seed], run) for run in after if run.seed in first]


def count_changes(before: Run, after: Run) -> Changes:
    """Count what changed over all test pictures of two runs."""
    one, two = arrays_of(before), arrays_of(after)
    labels = np.asarray(one["labels"])
    old, new = (np.asarray(arrays["top5"])[:, 0] == labels for arrays in (one, two))
    return Changes(int((~old & new).sum()), int((old & ~new).sum()), len(labels))


def corrections(before: Run, after: Run, limit: int = 12) -> list[Picture]:
    """Test pictures that the second run gets right and the first wrong: `find_corrected` on the arrays of both."""
    one, two = arrays_of(before), arrays_of(after)
    rows = sample_rows(one, "pixel")
    labels, old, old_p, new, new_p = (
        np.asarray(part)[rows] for part in (one["labels"], one["top5"], one["p5"], two["top5"], two["p5"])
    )
    count = 1 + max(int(np.max(part)) for part in (one["labels"], one["top5"], two["top5"]))
    return find_corrected(one["pixels"], labels, old, old_p, new, new_p, before.class_names(count), limit)


def regressions(before: Run, after: Run, limit: int = 12) -> list[Picture]:
    """Test pictures that the first run gets right and the second wrong, what the first is surest of first."""
    return [replace(one, before=one.after, after=one.before) for one in corrections(after, before, limit)]


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


def draw(parts: Mapping[str, Sequence[Picture]], names: tuple[str, str] = ("CE", "CE+OPL")) -> "Figure":
    """A matplotlib figure: each picture next to the predictions of both models, the true class in the accent color.

    Args:
        parts: by their heading, for example the pictures that were fixed, and those that were broken; not all empty.
        names: the names of the two models.

    Example:
        >>> picture = Picture(np.zeros((8, 8, 1), dtype=np.uint8), "cat", (("dog", 0.9),), (("cat", 0.8),))
        >>> len(draw({"fixed": [picture]}).axes)
        3
    """
    from matplotlib.figure import Figure

    if not any(parts.values()):
        raise OptionError("there is no picture to show: give at least one, or leave the figure out if none was mended.")
    with paper():
        rows = sum(-(-len(part) // ACROSS) for part in parts.values())
        figure = Figure(figsize=(WIDTH * ACROSS, HEAD * len(parts) + HEIGHT * rows))
        top = figure.get_figheight()
        for heading, part in parts.items():
            words = heading if part else f"{heading}, none among those kept"
            x, y = 0.06 / (WIDTH * ACROSS), (top - 0.12) / figure.get_figheight()
            figure.text(x, y, print_label(words, 100, 100), va="top", fontsize=9, fontweight="bold")
            for i, picture in enumerate(part):
                row, column = divmod(i, ACROSS)
                place(figure, picture, names, (WIDTH * column, top - HEAD - HEIGHT * (row + 1)))
            top -= HEAD + HEIGHT * -(-len(part) // ACROSS)
    return figure


def render(rows: Rows, order: Order) -> Rendering:
    """For each row and its baseline, what was fixed and broken in the runs of the lowest seed that both have.

    The first figure has no suffix, the others that of their recipe; there is none where nothing changed.
    """
    by_recipe = {row.recipe: (row, runs) for row, runs in rows}
    figures: dict[str, Figure] = {}
    words: list[str] = []
    behind: dict[str, tuple[Run, Run]] = {}
    for after, second in rows:
        if after.baseline not in by_recipe:
            continue
        before, first = by_recipe[after.baseline]
        pairs = pair_by_seed(first, second)
        if not pairs:
            raise FolderError(f"{before.recipe} and {after.recipe} have no finished run of the same seed: finish one.")
        common, names = split_common(before.label, after.label)
        parts = _parts(*pairs[0], names)
        ending = f"-{after.recipe}" if words else ""
        if any(parts.values()):
            figures[ending], behind[ending] = draw(parts, names), pairs[0]
        start = f"{common}: " if common else ""
        words += [f"{start}{heading}, seed {pairs[0][1].seed}; {len(part)} shown" for heading, part in parts.items()]
    return Rendering(figures, words, behind)


def _parts(before: Run, after: Run, names: tuple[str, str]) -> dict[str, list[Picture]]:
    """The pictures that were fixed and those that were broken, by headings that count them over all test pictures."""
    counted, (first, second) = count_changes(before, after), names
    of = f"of {counted.total:,} test pictures"
    return {
        f"{second} fixes {counted.fixed:,} {of}: {first} was wrong (surest first)": corrections(before, after, PRINTED),
        f"{second} breaks {counted.broken:,} {of}: {first} was right (surest first)": regressions(
            before, after, PRINTED
        ),
    }


def split_common(one: str, other: str) -> tuple[str, tuple[str, str]]:
    """What two labels begin with, and the rest of both; a label is never left empty.

    Example:
        >>> split_common("CIFAR-100, 20 classes CE", "CIFAR-100, 20 classes CE+OPL")
        ('CIFAR-100, 20 classes', ('CE', 'CE+OPL'))
    """
    first, second = one.split(), other.split()
    same = 0
    while same < min(len(first), len(second)) - 1 and first[same] == second[same]:
        same += 1
    return " ".join(first[:same]), (" ".join(first[same:]), " ".join(second[same:]))


def _named(classes: Array, probabilities: Array, class_names: Sequence[str]) -> Guesses:
    return tuple((class_names[int(i)], float(p)) for i, p in zip(classes, probabilities, strict=True))


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
