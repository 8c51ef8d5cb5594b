"""The charts of a model card: curves of the training, and the similarity of the classes."""

import tempfile
from contextlib import suppress
from pathlib import Path

import numpy as np

from ..charts import curves, similarity
from ..charts.figure import add_footer, describe_runs, save
from ..results.runs import BROKEN
from .subject import Subject

CURVES = {
    "train/loss": "training loss with all terms of a method",
    "val/top1": "validation accuracy, %",
    "s": "s, same class",
    "d": "d, other classes",
}
PICTURES = {
    "training.png": "Training: the mean over the seeds and its 95 % interval",
    "similarity.png": "|Cosine| between the mean test features of the classes, of this model",
}
"""The file names of the charts, and what they show."""


def draw_pictures(subject: Subject) -> dict[str, bytes]:
    """Draw the charts that the run's files allow, as PNG files by name."""
    from matplotlib.figure import Figure

    figures: dict[str, Figure] = {}
    panels = _panels(subject)
    if panels:
        figures["training.png"] = curves.draw(panels)
        add_footer(figures["training.png"], describe_runs([*subject.baseline, *subject.seeds]))
    if "similarity" in subject.run.arrays():
        with suppress(*BROKEN):  # the card of a run with a damaged file has no such chart
            figures["similarity.png"] = similarity.draw([similarity.matrix(subject.label, [subject.run])])
            add_footer(figures["similarity.png"], describe_runs([subject.run]))
    with tempfile.TemporaryDirectory() as folder:
        files = {name: save(figure, Path(folder) / Path(name).stem)[1] for name, figure in figures.items()}
        return {name: file.read_bytes() for name, file in files.items()}


def _panels(subject: Subject) -> dict[str, list[curves.Curve]]:
    """Return the curves of the run's recipe and its baseline, by metric; metrics without records are left out."""
    panels: dict[str, list[curves.Curve]] = {}
    groups = {subject.baseline_label: subject.baseline, subject.label: subject.seeds}
    for metric, title in CURVES.items():
        candidates = [curves.curve(label, runs, metric) for label, runs in groups.items() if runs]
        recorded = [curve for curve in candidates if np.isfinite(curve.values).any()]
        if recorded:
            panels[title] = recorded
    return panels
