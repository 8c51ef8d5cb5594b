"""Figure s3: the last row's similarity matrix, read class by class."""

from ..results.runs import Rows
from . import similarity
from .rendering import Order, Rendering

NEEDS = similarity.NEEDS


def render(rows: Rows, order: Order) -> Rendering:
    """The matrix of the last row, and each class's nearest and farthest classes as text."""
    row, runs = rows[-1]
    chosen = similarity.matrix(row.label, runs, order)
    words = [f"{row.label}:", *similarity.describe_neighbors(chosen)]
    return Rendering({"": similarity.draw([chosen], large=True)}, words, {"": runs})
