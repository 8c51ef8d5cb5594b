"""Figure s3: the similarity matrix of the last row with all classes named, and the neighbors of each class as text."""

from typing import Any

import numpy as np

from ..results.runs import Rows
from .figure import Figure, Order, Rendering, new_figure
from .similarity import ALL_NAMES, SIDE, Matrix, absolute, draw_matrices, matrix

MOST, PER_NAME = 150, 0.085  # classes up to which all are named, and the inches per name


def describe_neighbors(matrix: Matrix, n: int = 3) -> list[str]:
    """Return one sentence per class: its `n` nearest classes, with the largest |cosine|, and its `n` farthest.

    Example:
        >>> values = np.array([[1.0, 0.71, 0.02], [0.71, 1.0, 0.1], [0.02, 0.1, 1.0]])
        >>> describe_neighbors(Matrix("OPL", values, ("dolphin", "whale", "pear")), n=1)[0]
        'dolphin: nearest whale 0.71; farthest pear 0.02'
    """
    return [_describe_class(matrix, index, n) for index in range(len(matrix.class_names))]


def draw(matrix: Matrix) -> Figure:
    """Draw a matplotlib figure: the matrix with every class named, and a ring at the nearest class of each row."""
    count = len(matrix.class_names)
    side = max(SIDE, PER_NAME * min(count, MOST) + 0.9)
    with new_figure(side + 0.7, side + 0.3) as (figure, [[axes]]):
        draw_matrices(figure, [axes], [matrix], MOST, aspect=40)
        axes.tick_params(length=1.5, pad=1)
        values = absolute(matrix)
        np.fill_diagonal(values, np.nan)
        rows = np.flatnonzero(np.isfinite(values).any(axis=1))
        if len(rows):
            ring: dict[str, Any] = {"markersize": 2.5 if count > ALL_NAMES else 5, "markeredgewidth": 0.7}
            nearest = np.nanargmax(values[rows], axis=1)
            axes.plot(nearest, rows, "o", markerfacecolor="none", markeredgecolor="white", **ring)
            axes.set_xlabel("a ring marks the nearest other class of each row", fontsize=7, loc="left")
    return figure


def render(rows: Rows, order: Order) -> Rendering:
    """Render the matrix of the last row and, as text, each class's nearest and farthest classes."""
    row, runs = rows[-1]
    last = matrix(row.label, runs, order)
    return Rendering({"": draw(last)}, [f"{row.label}:", *describe_neighbors(last)], {"": runs})


def _describe_class(matrix: Matrix, index: int, n: int) -> str:
    name, row = matrix.class_names[index], np.asarray(matrix.values, dtype=float)[index]
    others = [other for other in range(len(row)) if other != index and np.isfinite(row[other])]
    others.sort(key=lambda other: -abs(row[other]))
    if not others:
        return f"{name}: no other class to compare it with"
    nearest, farthest = others[:n], others[n:][-n:][::-1]
    parts = [
        f"{kind} " + ", ".join(f"{matrix.class_names[other]} {row[other]:z.2f}" for other in group)
        for kind, group in (("nearest", nearest), ("farthest", farthest))
        if group
    ]
    return f"{name}: {'; '.join(parts)}"
