"""What all figures take and give beside their values: an order of classes, arrays of a run, figures and words."""

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from ...errors import FolderError
from ..evaluation.registry import protocol_of
from ..results.runs import Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Order = Literal["class", "cluster", "superclass"]
"""Of the classes of a similarity matrix; the other figures have none."""


class Rendering(NamedTuple):
    """Figures by what their files' names end in, and what they say in words."""

    figures: "dict[str, Figure]"
    words: list[str]


def arrays_of(run: Run, name: str = "test") -> dict[str, Any]:
    """The arrays of a run that a figure cannot do without."""
    arrays = run.arrays(name)
    if not arrays:
        path = run.folder.path
        raise FolderError(f"{path} has no readable {name}.npz: write it with opl evaluate {path} {protocol_of(name)}.")
    return arrays
