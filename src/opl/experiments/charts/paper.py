"""From runs to the files of a figure: PDF, PNG, and its content as text."""

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from ...errors import FolderError
from ..item import Item
from ..results.runs import Run, select_runs
from . import footer
from .rendering import Order, Rendering
from .style import save

FROM_RECORDS = ("forest", "grid", "search", "widths")  # figures of final numbers, which records of runs have


def draw(
    item: Item, runs: Sequence[Run], folder: Path, scale: str, order: Order = "class"
) -> tuple[list[Path], list[str]]:
    """Draw a figure from the finished runs of its rows; return the files written and its content as text.

    Args:
        item: a figure; its `figure` is the name of a module of this package.
        runs: must include those of its rows.
        folder: where to write `NAME.pdf`, `NAME.png` and `NAME.txt`.
        scale: the scale of the runs to draw.
        order: the order of the classes in similarity matrices.
    """
    rows = [(row, select_runs(runs, row.recipe, scale)) for row in item.at(scale)]
    if not rows or not all(found for _, found in rows):
        missing = ", ".join(row.recipe for row, found in rows if not found) or f"any run at scale {scale}"
        raise FolderError(f"{item.name} cannot be drawn without {missing}: let opl reproduce {item.name} finish them.")
    rendered: Rendering = import_module(f"{__package__}.{item.figure}").render(rows, order)
    every = [run for _, found in rows for run in found]
    written = []
    for ending, figure in rendered.figures.items():
        footer.add(figure, footer.describe(rendered.runs.get(ending, every)))
        written += save(figure, folder / f"{item.name}{ending}")
    text = folder / f"{item.name}.txt"
    text.write_text("\n".join(rendered.words) + "\n")
    return [*written, text], rendered.words
