"""The common inputs and outputs of all figures: the order of classes, the arrays of a run, figures and text."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from ...errors import FolderError
from ..evaluation.protocols import protocol_of
from ..results.runs import Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Order = Literal["class", "cluster", "superclass"]
"""The order of the classes in a similarity matrix; the other figures ignore it."""


class Rendering(NamedTuple):
    """Figures by the suffix of their file names, and what they show as lines of text."""

    figures: "dict[str, Figure]"
    words: list[str]
    runs: Mapping[str, Sequence[Run]] = {}
    """The runs behind a figure, by the same suffix, where these are not all runs of the rows."""


def arrays_of(run: Run, name: str = "test") -> dict[str, Any]:
    """The named arrays of a run; raises FolderError if they cannot be read."""
    arrays = run.arrays(name)
    if not arrays:
        path = run.folder.path
        raise FolderError(f"{path} has no readable {name}.npz: write it with opl evaluate {path} {protocol_of(name)}.")
    return arrays


def sample_rows(arrays: dict[str, Any], name: str) -> Any:
    """The rows of the test images that a sample was taken of: `feature` for `features`, `pixel` for `pixels`."""
    import numpy as np

    samples = arrays[{"feature": "features", "pixel": "pixels"}[name]]
    return np.asarray(arrays.get(f"{name}_rows", np.arange(len(samples))))
