"""Figure 4: the cosines between the mean features of the classes, as matrices; on the page also their change."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ...errors import OptionError
from ..results.runs import Rows, Run, describe_seeds
from . import data_uris
from .figure import DIVERGING, SCALE, Axes, Figure, Order, Rendering, new_figure
from .samples import arrays_of
from .style import Array, print_label, shorten
from .svg import DataTable

SIDE = 3.4  # inches of a matrix
ALL_NAMES = 30  # classes up to which all are named
MOST_NAMES = 20  # of more classes, about this number are named
SIGNED = -0.02  # below this cosine, the scale has both signs; activations such as SiLU dip just below 0
CHANGES = 40  # pairs of classes in the data table of the page


@dataclass(frozen=True, eq=False)
class Matrix:
    """The cosines between the mean features of the classes of one model."""

    label: str
    values: Array
    """(C, C); NaN where a class has no samples."""
    class_names: tuple[str, ...]

    def __post_init__(self) -> None:
        count = len(self.class_names)
        if np.shape(self.values) != (count, count) or not count:
            raise OptionError(
                f"the matrix of {self.label!r} has shape {np.shape(self.values)} and {count} class names: pass a row, "
                "a column and a name per class, for at least one class."
            )


class Panel(NamedTuple):
    """One matrix of the page: its caption, values and color scale."""

    caption: str
    note: str
    values: Array
    low: float
    high: float
    colors: tuple[str, ...]

    def image(self, order: Sequence[int]) -> str:
        """Draw the matrix as an image, with its classes in this order."""
        return data_uris.heat_map(self.values[np.ix_(order, order)], self.low, self.high, self.colors)


def matrix(label: str, runs: Sequence[Run], order: Order = "class") -> Matrix:
    """Return the class similarities of a row, averaged over its seeds, with the classes in an order."""
    seeds = [np.asarray(arrays_of(run)["similarity"]) for run in runs]
    if len({values.shape for values in seeds}) > 1:
        raise OptionError(f"the runs of {label!r} have different classes: use runs of the same data set.")
    count = len(seeds[0])
    mean = Matrix(label, np.mean(seeds, axis=0), runs[0].class_names(count))
    groups = runs[0].superclasses(count) if order == "superclass" else (0,) * count
    if not groups:
        raise OptionError(f"{runs[0].folder.path} records no super-classes: use --order class or --order cluster.")
    return reorder(mean, order, groups)


def off_diagonal_mean(matrix: Matrix) -> float:
    """Return the mean of |cosine| over all pairs of different classes; 0 if there is no pair.

    Example:
        >>> off_diagonal_mean(Matrix("CE", np.array([[1.0, -0.5], [-0.5, 1.0]]), ("cat", "dog")))
        0.5
    """
    pairs = absolute(matrix)[~np.eye(len(matrix.class_names), dtype=bool)]
    pairs = pairs[np.isfinite(pairs)]
    return float(pairs.mean()) if len(pairs) else 0.0


def reorder(matrix: Matrix, order: Order, groups: Sequence[int]) -> Matrix:
    """Return the same matrix with its classes in another order, group by group.

    `cluster` puts similar classes next to each other; the other orders keep the order within a group.

    Example:
        >>> values = np.array([[1.0, 0.1, 0.9], [0.1, 1.0, 0.2], [0.9, 0.2, 1.0]])
        >>> reorder(Matrix("CE", values, ("cat", "pear", "dog")), "superclass", (7, 3, 7)).class_names
        ('pear', 'cat', 'dog')
    """
    indices = _leaves(matrix) if order == "cluster" else list(range(len(matrix.class_names)))
    indices.sort(key=lambda index: groups[index])
    names = tuple(matrix.class_names[index] for index in indices)
    return Matrix(matrix.label, np.asarray(matrix.values)[np.ix_(indices, indices)], names)


def is_signed(matrices: Sequence[Matrix]) -> bool:
    """Return whether some classes clearly point away from each other, as only features with negative values can.

    Example:
        >>> is_signed([Matrix("ViT", np.array([[1.0, -0.5], [-0.5, 1.0]]), ("cat", "dog"))])
        True
    """
    return any(bool(np.nanmin(matrix.values, initial=0.0) < SIGNED) for matrix in matrices)


def has_matrix(run: Run) -> bool:
    """Return whether a run keeps the similarity of its classes."""
    return np.ndim(run.arrays().get("similarity", ())) == 2


def compare(first: Matrix, second: Matrix, seeds: Sequence[Sequence[int]]) -> list[Panel]:
    """Return the panels of the page: before, after, and the change of |cosine|; `seeds` are the seeds by matrix."""
    signed = is_signed([first, second])
    scale = (-1.0, 1.0, data_uris.DIVERGING) if signed else (0.0, 1.0, data_uris.SEQUENTIAL)
    panels = []
    for matrix, matrix_seeds in zip((first, second), seeds, strict=True):
        note = f"{describe_seeds(matrix_seeds)}, mean |cos| between class means {off_diagonal_mean(matrix):.3f}"
        panels.append(Panel(matrix.label, note, np.asarray(matrix.values, dtype=float), *scale))
    change = absolute(second) - absolute(first)
    largest = max(0.01, float(np.nanmax(np.abs(change), initial=0.0)))
    mean = off_diagonal_mean(second) - off_diagonal_mean(first)
    return [*panels, Panel("change of |cos|", f"mean {mean:+.3f}", change, -largest, largest, data_uris.DIVERGING)]


def class_orders(matrix: Matrix, super_classes: Sequence[int]) -> dict[str, list[int]]:
    """Return the orders of classes that the page offers, by name; all matrices use the same order."""
    count = len(matrix.class_names)
    orders = {"class": list(range(count)), f"cluster of {matrix.label}": _leaves(matrix)}
    if len(set(super_classes)) > 1:
        orders["super-class"] = sorted(range(count), key=lambda index: super_classes[index])
    return orders


def script_values(panels: Sequence[Panel], orders: Sequence[Sequence[int]], class_names: Sequence[str]) -> Any:
    """Return what the script of the page needs to name both classes and all values of a cell.

    Cells are thousandths of the first two matrices, row by row up to the diagonal, because they are symmetric.
    """
    thousandths = [np.round(1000 * np.nan_to_num(panel.values)).astype(int) for panel in panels[:2]]
    cells = [[values[row, : row + 1].tolist() for row in range(len(values))] for values in thousandths]
    return {"names": [shorten(name) for name in class_names], "orders": list(orders), "cells": cells}


def data_table(panels: Sequence[Panel], class_names: Sequence[str]) -> DataTable:
    """Return the pairs of classes whose |cosine| changed most."""
    before, after, change = (panel.values for panel in panels)
    change = np.nan_to_num(change)
    pairs = [(row, column) for row in range(len(class_names)) for column in range(row)]
    pairs.sort(key=lambda pair: -abs(change[pair]))
    rows = [
        (
            f"{class_names[pair[1]]} and {class_names[pair[0]]}",
            f"{before[pair]:.3f}",
            f"{after[pair]:.3f}",
            f"{change[pair]:+.3f}",
        )
        for pair in pairs[:CHANGES]
    ]
    label = f"the {len(rows)} pairs of classes that changed most" if len(pairs) > CHANGES else "every pair of classes"
    return DataTable(label, ("classes", "before", "after", "change of |cos|"), rows)


def draw(matrices: Sequence[Matrix]) -> Figure:
    """Draw a matplotlib figure: the similarity of each pair of classes, all matrices side by side on one scale.

    The scale is |cosine| from 0 to 1; if there are negative cosines, it is the cosine from -1 to 1, white at 0.
    """
    with new_figure(SIDE * len(matrices) + 0.7, SIDE + 0.3, columns=len(matrices)) as (figure, [grid]):
        draw_matrices(figure, list(grid), matrices, ALL_NAMES, aspect=20)
    return figure


def draw_matrices(figure: Figure, axes: list[Axes], matrices: Sequence[Matrix], most_names: int, aspect: int) -> None:
    """Draw matrices on one color scale into the axes of a figure, with a color bar.

    At most `most_names` classes are all named; `aspect` is the length of the color bar divided by its width.
    """
    signed = is_signed(matrices)
    scale, lowest = (DIVERGING, -1) if signed else (SCALE, 0)
    for panel, matrix in zip(axes, matrices, strict=True):
        values = np.asarray(matrix.values, dtype=float) if signed else absolute(matrix)
        image = panel.imshow(values, cmap=scale, vmin=lowest, vmax=1, interpolation="nearest")
        note = f"mean |cos| between classes {off_diagonal_mean(matrix):.3f}"
        panel.set_title(f"{print_label(matrix.label, width=30)}\n{note}", loc="left")
        _name_classes(panel, matrix, most_names)
    label = "cos: −1 opposite, 0 right angle, 1 one direction" if signed else "|cos|: 0 right angle, 1 one direction"
    figure.colorbar(image, ax=axes, label=label, shrink=0.8, aspect=aspect)


def render(rows: Rows, order: Order) -> Rendering:
    """Render the matrices of the rows and, as text, the off-diagonal mean of each."""
    matrices = [matrix(row.label, runs, order) for row, runs in rows]
    text = [f"{part.label}: mean of |cos| off the diagonal {off_diagonal_mean(part):.3f}" for part in matrices]
    return Rendering({"": draw(matrices)}, text)


def absolute(matrix: Matrix) -> Array:
    """Return |cosine|, as in the loss: opposite directions are as far from orthogonal as equal directions."""
    values: Array = np.asarray(matrix.values, dtype=float)
    return np.abs(values)


def _leaves(matrix: Matrix) -> list[int]:
    """Return the classes in the order of a clustering by average linkage of 1 - |cosine|."""
    count = len(matrix.class_names)
    if count < 2:
        return list(range(count))
    from scipy.cluster.hierarchy import leaves_list, linkage
    from scipy.spatial.distance import squareform

    cosines = np.nan_to_num(absolute(matrix), nan=0.0, posinf=0.0)
    distances = (1 - (cosines + cosines.T) / 2).clip(0)
    np.fill_diagonal(distances, 0)
    tree = linkage(squareform(distances, checks=False), method="average", optimal_ordering=True)
    return [int(leaf) for leaf in leaves_list(tree)]


def _name_classes(axes: Axes, matrix: Matrix, most: int) -> None:
    """Name the classes on both axes: all of them, or some if there are more than `most`."""
    count = len(matrix.class_names)
    indices = list(range(0, count, 1 if count <= most else max(5, -(-count // MOST_NAMES))))
    names = [print_label(matrix.class_names[index], 20) for index in indices]
    size = 6 if count <= 20 else 5
    axes.set_xticks(indices, names, rotation=90, fontsize=size)
    axes.set_yticks(indices, names, fontsize=size)
