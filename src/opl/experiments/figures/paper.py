"""From runs to the files of a figure: PDF, PNG and what it says as text."""

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from ...errors import FolderError
from ..item import Item
from ..results.runs import Run, select_runs
from ._rendering import Order, Rendering
from .style import save


def draw(
    item: Item, runs: Sequence[Run], folder: Path, scale: str, order: Order = "class"
) -> tuple[list[Path], list[str]]:
    """Draw a figure from the finished runs of its rows; the files written, and what it says in words.

    Args:
        item: one with a `figure`, the name of a module of this package.
        runs: among which those of its rows are.
        folder: where `NAME.pdf`, `NAME.png` and `NAME.txt` go.
        scale: of the runs.
        order: of the classes, for the similarity matrices.
    """
    rows = [(row, select_runs(runs, row.recipe, scale)) for row in item.at(scale)]
    if not rows or not all(found for _, found in rows):
        missing = ", ".join(row.recipe for row, found in rows if not found) or f"any run at scale {scale}"
        raise FolderError(f"{item.name} cannot be drawn without {missing}: let opl reproduce {item.name} finish them.")
    rendered: Rendering = import_module(f"{__package__}.{item.figure}").render(rows, order)
    written = [
        file for ending, figure in rendered.figures.items() for file in save(figure, folder / f"{item.name}{ending}")
    ]
    text = folder / f"{item.name}.txt"
    text.write_text("\n".join(rendered.words) + "\n")
    return [*written, text], rendered.words
