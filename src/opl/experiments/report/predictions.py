"""What a row's model said of the test images, as the figures take it."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..figures.plane import Cloud
from ..figures.similarity import Matrix
from ..results.runs import Run, class_names, outputs
from ..tables import Row
from .groups import Group


@dataclass(frozen=True)
class RunPredictions:
    """A row's first finished run that kept its outputs."""

    row: Row
    run: Run
    arrays: dict[str, Any]

    def matrix(self) -> Matrix | None:
        """The similarity of its classes."""
        values = self.arrays.get("similarity")
        if values is None or np.ndim(values) != 2:
            return None
        return Matrix(self.row.label, values, class_names(self.run, len(values)))

    def cloud(self) -> Cloud | None:
        """Its features, where they have two dimensions."""
        features, labels = self.arrays.get("features"), self.arrays.get("labels")
        if features is None or labels is None or np.ndim(features) != 2 or np.shape(features)[1] != 2:
            return None
        own = np.asarray(labels)[: len(features)]
        return Cloud(self.row.label, features, own, class_names(self.run, int(own.max(initial=0)) + 1))


def first_seen(group: Group, row: Row) -> RunPredictions | None:
    """Of the runs of a row, the one with the lowest seed that has outputs."""
    for run in sorted(group.finished(row), key=lambda each: each.seed):
        arrays = outputs(run)
        if arrays:
            return RunPredictions(row, run, arrays)
    return None
