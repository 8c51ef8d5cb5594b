"""Figure 4: the similarities between the classes, as a matrix and class by class."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from ...errors import OptionError, did_you_mean
from ..results.runs import Rows, Run
from .rendering import Order, Rendering, arrays_of
from .style import DIVERGING, SCALE, Array, paper, print_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

By = Literal["class", "cluster"]
NEEDS = ("test",)
ALL_NAMES = 30  # classes up to which all are named
MOST_NAMES = 20  # of more classes, so many are named
SIGNED = -0.02  # a cosine below this asks for a scale with both signs; activations such as SiLU dip just below 0
LARGE, PER_NAME = 150, 0.085  # classes that are all named on a large figure, and the inches for each


@dataclass(frozen=True, eq=False)
class Matrix:
    """The cosines between the mean features of the classes of one model.

    Args:
        label: name of the model, for example "CE+OPL".
        values: (C, C); NaN where a class has no samples.
        class_names: one for each class.
    """

    label: str
    values: Array
    class_names: tuple[str, ...]

    def __post_init__(self) -> None:
        count = len(self.class_names)
        if np.shape(self.values) != (count, count) or not count:
            raise OptionError(
                f"the matrix of {self.label!r} has shape {np.shape(self.values)} and {count} class names: give a row, "
                "a column and a name for each class, at least one."
            )


def matrix(label: str, runs: Sequence[Run], order: Order = "class") -> Matrix:
    """The class similarities of a row, averaged over its seeds.

    Args:
        label: label of the matrix.
        runs: one for each seed, with the same classes.
        order: order of the classes.
    """
    each = [np.asarray(arrays_of(run)["similarity"]) for run in runs]
    if len({values.shape for values in each}) > 1:
        raise OptionError(f"the runs of {label!r} differ in their classes: give runs of the same data.")
    count = len(each[0])
    mean = Matrix(label, np.mean(each, axis=0), runs[0].class_names(count))
    if order != "superclass":
        return reorder(mean, by=order)
    groups = runs[0].superclasses(count)
    if not groups:
        raise OptionError(f"{runs[0].folder.path} knows no super-classes of its data: give --order class or cluster.")
    return reorder(mean, groups=groups)


def off_diagonal_mean(matrix: Matrix) -> float:
    """The mean of |cosine| over all pairs of different classes; 0 if there is no pair.

    Example:
        >>> off_diagonal_mean(Matrix("CE", np.array([[1.0, -0.5], [-0.5, 1.0]]), ("cat", "dog")))
        0.5
    """
    pairs = _absolute(matrix)[~np.eye(len(matrix.class_names), dtype=bool)]
    pairs = pairs[np.isfinite(pairs)]
    return float(pairs.mean()) if len(pairs) else 0.0


def reorder(matrix: Matrix, by: By = "class", groups: Sequence[int] | None = None) -> Matrix:
    """The same matrix with its classes in another order.

    Args:
        matrix: any matrix.
        by: `"class"` keeps the order; `"cluster"` puts similar classes next to each other (average linkage of
            1 - |cosine|).
        groups: the superclass of each class; groups the classes by it, with the order `by` within each group.

    Example:
        >>> values = np.array([[1.0, 0.1, 0.9], [0.1, 1.0, 0.2], [0.9, 0.2, 1.0]])
        >>> reorder(Matrix("CE", values, ("cat", "pear", "dog")), groups=(7, 3, 7)).class_names
        ('pear', 'cat', 'dog')
    """
    if by not in get_args(By):
        raise OptionError(did_you_mean("order by", by, get_args(By)))
    order = _leaves(matrix) if by == "cluster" else list(range(len(matrix.class_names)))
    if groups is not None:
        if len(groups) != len(order):
            raise OptionError(f"there are {len(groups)} groups for {len(order)} classes: give one for each class.")
        order.sort(key=lambda index: groups[index])
    names = tuple(matrix.class_names[index] for index in order)
    return Matrix(matrix.label, np.asarray(matrix.values)[np.ix_(order, order)], names)


def describe_neighbors(matrix: Matrix, n: int = 3) -> list[str]:
    """One sentence per class: its nearest classes, with the largest |cosine|, and its farthest; none is in both.

    Args:
        matrix: any matrix.
        n: the maximum number of each.

    Example:
        >>> values = np.array([[1.0, 0.71, 0.02], [0.71, 1.0, 0.1], [0.02, 0.1, 1.0]])
        >>> describe_neighbors(Matrix("OPL", values, ("dolphin", "whale", "pear")), n=1)[0]
        'dolphin: nearest whale 0.71; farthest pear 0.02'
    """
    if n < 1:
        raise OptionError(f"n is {n}: give how many neighbors to name, at least 1.")
    return [_sentence(matrix, index, n) for index in range(len(matrix.class_names))]


def is_signed(matrices: Sequence[Matrix]) -> bool:
    """Whether some classes clearly point away from each other, as only features with negative values can.

    Example:
        >>> is_signed([Matrix("ViT", np.array([[1.0, -0.5], [-0.5, 1.0]]), ("cat", "dog"))])
        True
    """
    return any(bool(np.nanmin(matrix.values, initial=0.0) < SIGNED) for matrix in matrices)


def draw(matrices: Sequence[Matrix], *, large: bool = False) -> "Figure":
    """A matplotlib figure: the similarity of each pair of classes, with all matrices side by side on one scale.

    The scale is |cosine| from 0 to 1; if there are negative cosines, it is the cosine from -1 to 1, white at 0.

    Args:
        matrices: for example those of CE and of CE+OPL.
        large: name every class, on a figure that has room for it, and mark the nearest class of each.

    Example:
        >>> print(draw([Matrix("OPL", np.eye(2), ("cat", "dog"))]).axes[0].get_title(loc="left"))
        OPL
        mean |cos| between classes 0.000
    """
    from matplotlib.figure import Figure

    if not matrices:
        raise OptionError("there is no matrix to draw: give at least one.")
    signed = is_signed(matrices)
    classes = max(len(matrix.class_names) for matrix in matrices)
    side = max(3.4, PER_NAME * min(classes, LARGE) + 0.9) if large else 3.4
    with paper():
        figure = Figure(figsize=(side * len(matrices) + 0.7, side + 0.3), layout="constrained")
        grid = figure.subplots(1, len(matrices), squeeze=False)[0]
        for axes, matrix in zip(grid, matrices, strict=True):
            image = _image(axes, matrix, signed)
            _name(axes, matrix, large)
            if large:
                _mark_nearest(axes, matrix)
        label = (
            "cos: −1 opposite, 0 right angle, 1 one direction" if signed else "|cos|: 0 right angle, 1 one direction"
        )
        figure.colorbar(image, ax=list(grid), label=label, shrink=0.8, aspect=40 if large else 20)
    return figure


def render(rows: Rows, order: Order) -> Rendering:
    """The matrices of the rows, and the off-diagonal mean of each as text."""
    matrices = [matrix(row.label, runs, order) for row, runs in rows]
    words = [f"{each.label}: mean of |cos| off the diagonal {off_diagonal_mean(each):.3f}" for each in matrices]
    return Rendering({"": draw(matrices)}, words)


def _absolute(matrix: Matrix) -> Array:
    """|cosine|, as in the loss: opposite directions are as far from orthogonal as equal ones."""
    values: Array = np.asarray(matrix.values, dtype=float)
    return np.abs(values)


def _leaves(matrix: Matrix) -> list[int]:
    count = len(matrix.class_names)
    if count < 2:
        return list(range(count))
    from scipy.cluster.hierarchy import leaves_list, linkage
    from scipy.spatial.distance import squareform

    alike = np.nan_to_num(_absolute(matrix), nan=0.0, posinf=0.0)
    distances = (1 - (alike + alike.T) / 2).clip(0)
    np.fill_diagonal(distances, 0)
    tree = linkage(squareform(distances, checks=False), method="average", optimal_ordering=True)
    return [int(leaf) for leaf in leaves_list(tree)]


def _sentence(matrix: Matrix, index: int, n: int) -> str:
    name, row = matrix.class_names[index], np.asarray(matrix.values, dtype=float)[index]
    others = [other for other in range(len(row)) if other != index and np.isfinite(row[other])]
    others.sort(key=lambda other: -abs(row[other]))
    if not others:
        return f"{name}: no other class to compare it with"
    nearest, farthest = others[:n], others[n:][-n:][::-1]
    parts = [
        f"{word} " + ", ".join(f"{matrix.class_names[other]} {row[other]:z.2f}" for other in some)
        for word, some in (("nearest", nearest), ("farthest", farthest))
        if some
    ]
    return f"{name}: {'; '.join(parts)}"


def _image(axes: "Axes", matrix: Matrix, signed: bool) -> "AxesImage":
    values = np.asarray(matrix.values, dtype=float) if signed else _absolute(matrix)
    look, lowest = (DIVERGING, -1) if signed else (SCALE, 0)
    image = axes.imshow(values, cmap=look, vmin=lowest, vmax=1, interpolation="nearest")
    words = f"mean |cos| between classes {off_diagonal_mean(matrix):.3f}"
    axes.set_title(f"{print_label(matrix.label, width=30)}\n{words}", loc="left")
    return image


def _name(axes: "Axes", matrix: Matrix, large: bool) -> None:
    """Name the classes on both axes: all of them where there is room, otherwise some."""
    count = len(matrix.class_names)
    step = 1 if count <= (LARGE if large else ALL_NAMES) else max(5, -(-count // MOST_NAMES))
    shown = range(0, count, step)
    names = [print_label(matrix.class_names[index], 20) for index in shown]
    size = 6 if count <= 20 else 5
    axes.set_xticks(list(shown), names, rotation=90, fontsize=size)
    axes.set_yticks(list(shown), names, fontsize=size)
    if large:
        axes.tick_params(length=1.5, pad=1)


def _mark_nearest(axes: "Axes", matrix: Matrix) -> None:
    """Put a ring into the cell of the nearest other class in each row."""
    values = _absolute(matrix)
    np.fill_diagonal(values, np.nan)
    rows = np.flatnonzero(np.isfinite(values).any(axis=1))
    if not len(rows):
        return
    nearest = np.nanargmax(values[rows], axis=1)
    size = 2.5 if len(values) > ALL_NAMES else 5
    axes.plot(nearest, rows, "o", markersize=size, markerfacecolor="none", markeredgecolor="white", markeredgewidth=0.7)
    axes.set_xlabel("a ring marks the nearest other class of each row", fontsize=7, loc="left")
