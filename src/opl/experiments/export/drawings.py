"""The pictures of a model card, of what the run has: curves of its training, and the similarity of its classes."""

import tempfile
from contextlib import suppress
from pathlib import Path

import numpy as np

from ..charts import footer, similarity, training
from ..charts.style import save
from ..results.runs import BROKEN
from .subject import Subject

CURVES = {
    "train/loss": "training loss, each method's own",
    "val/top1": "validation accuracy, %",
    "s": "s, same class",
    "d": "d, other classes",
}
PICTURES = {
    "training.png": "Training: the mean over the seeds and its 95 % interval",
    "similarity.png": "|Cosine| between the mean test features of the classes, of this model",
}
"""The names of the pictures, and what they show."""


def draw_pictures(subject: Subject) -> dict[str, bytes]:
    """The pictures that can be drawn, as PNG files by name; those that cannot are left out."""
    from matplotlib.figure import Figure

    figures: dict[str, Figure] = {}
    panels = _panels(subject)
    if panels:
        figures["training.png"] = training.draw(panels)
        footer.add(figures["training.png"], footer.describe([*subject.baseline, *subject.seeds]))
    if "similarity" in subject.run.arrays():
        with suppress(*BROKEN):  # a file that was damaged: the card does without it
            figures["similarity.png"] = similarity.draw([similarity.matrix(subject.label, [subject.run])])
            footer.add(figures["similarity.png"], footer.describe([subject.run]))
    with tempfile.TemporaryDirectory() as place:
        files = {name: save(figure, Path(place) / Path(name).stem)[1] for name, figure in figures.items()}
        return {name: file.read_bytes() for name, file in files.items()}


def _panels(subject: Subject) -> dict[str, list[training.Curve]]:
    """The curves of the run's recipe and of its baseline, by metric; metrics that were not recorded are left out."""
    panels: dict[str, list[training.Curve]] = {}
    groups = {subject.baseline_label: subject.baseline, subject.label: subject.seeds}
    for metric, title in CURVES.items():
        found = [training.curve(label, runs, metric) for label, runs in groups.items() if runs]
        there = [curve for curve in found if np.isfinite(curve.values).any()]
        if there:
            panels[title] = there
    return panels
