"""From run folders to the paper's figures: reads the records, hands them to `figures/`, writes PDF, PNG and text."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ...errors import FolderError, OptionError
from ..run_folder import RunFolder, find_runs
from ..statistics import interval
from ..tables import Item, Row
from . import gallery, lda, plane, search, similarity, training
from .style import save

Order = Literal["class", "cluster", "superclass"]
MEASURES = {
    "orthogonality": "orthogonality (lower is better)",
    "s": "s, same class (higher is better)",
    "d": "d, other classes (lower is better)",
}


def draw(item: Item, folder: Path, scale: str, order: Order = "class") -> tuple[list[Path], list[str]]:
    """Draw a figure from the finished runs of its rows; the files written, and what it says in words.

    Args:
        item: one with a `figure`.
        folder: where its runs are, and where `NAME.pdf`, `NAME.png` and `NAME.txt` go.
        scale: of the runs.
        order: of the classes, for the similarity matrices.
    """
    runs = [(row, finished(folder, row.recipe, scale)) for row in item.at(scale)]
    if not runs or not all(found for _, found in runs):
        missing = ", ".join(row.recipe for row, found in runs if not found) or f"any run at scale {scale}"
        raise FolderError(f"{item.name} cannot be drawn without {missing}: let opl reproduce {item.name} finish them.")
    figures, words = FIGURES[item.figure](runs, order)
    written = [file for name, figure in figures.items() for file in save(figure, folder / f"{item.name}{name}")]
    text = folder / f"{item.name}.txt"
    text.write_text("\n".join(words) + "\n")
    return [*written, text], words


def finished(folder: Path, recipe: str, scale: str) -> list[RunFolder]:
    """The finished runs of a recipe at a scale, by seed."""
    here = [run for run in find_runs(folder / recipe) if run.done and run.recipe()["scale"] == scale]
    return sorted(here, key=lambda run: int(run.recipe()["seed"]))


Runs = list[tuple[Row, list[RunFolder]]]
Drawn = tuple[dict[str, Any], list[str]]
"""Figures by what their files' names end in, and what they say in words."""


def _plane(runs: Runs, _: Order) -> Drawn:
    clouds = [cloud(row.label, found[0]) for row, found in runs]
    words = [
        f"{each.label}: mean angle between class directions {plane.mean_angle(each):.1f} degrees" for each in clouds
    ]
    for each in clouds:
        if len(each.class_names) <= 4:
            words.append(f"{each.label}, pair by pair: {', '.join(_pairs(each))}")
    sizes = sorted({len(each.class_names) for each in clouds}, reverse=True)
    alike = {size: [each for each in clouds if len(each.class_names) == size] for size in sizes}
    return {"" if size == sizes[0] else f"-{size}": plane.draw(some) for size, some in alike.items()}, words


def _pairs(cloud: plane.Cloud) -> list[str]:
    units = plane.directions(cloud)
    angles = np.degrees(np.arccos(np.clip(units @ units.T, -1, 1)))
    names = cloud.class_names
    return [
        f"{names[i]} and {names[j]} {angles[i, j]:.1f}" for i in range(len(names)) for j in range(i + 1, len(names))
    ]


def _training(runs: Runs, _: Order) -> Drawn:
    panels = {title: [curve(row.label, found, name) for row, found in runs] for name, title in MEASURES.items()}
    words = []
    for title, curves in panels.items():
        for each in curves:
            mean, low, high = training.band(each)
            words.append(f"{title}, {each.label}: {mean[-1]:.3f} [{low[-1]:.3f}, {high[-1]:.3f}] at the end")
    return {"": training.draw(panels)}, words


def _similarity(runs: Runs, order: Order) -> Drawn:
    matrices = [matrix(row.label, found, order) for row, found in runs]
    words = [
        f"{each.label}: mean of |cos| off the diagonal {similarity.off_diagonal_mean(each):.3f}" for each in matrices
    ]
    return {"": similarity.draw(matrices)}, words


def _neighbors(runs: Runs, order: Order) -> Drawn:
    row, found = runs[-1]
    chosen = matrix(row.label, found, order)
    return {"": similarity.draw([chosen])}, [f"{row.label}:", *similarity.describe_neighbors(chosen)]


def _gallery(runs: Runs, _: Order) -> Drawn:
    (before, first), (after, second) = runs[:2]
    pictures = mended(first[0], second[0])
    figures = {"": gallery.draw(pictures, (before.label, after.label))} if pictures else {}
    words = f"{after.label} gets right and {before.label} wrong, of the pictures that the runs of the first seed keep"
    return figures, [f"{len(pictures)} shown that {words}"]


def _search(runs: Runs, _: Order) -> Drawn:
    sweeps = sweeps_of([run for _, found in runs for run in found])
    words = []
    for setting, each in sweeps.items():
        for sweep in each:
            means = ", ".join(
                f"{x:g}: {interval(values).mean:.2f}" for x, values in zip(sweep.xs, sweep.values, strict=True)
            )
            words.append(f"{sweep.label} over {setting}: {means}")
    return {"": search.draw(sweeps)}, words


def _lda(runs: Runs, _: Order) -> Drawn:
    panels = [[panel(f"{row.label}, {kind} classes", found[0], name) for row, found in runs] for kind, name in KINDS]
    words = [f"{each.label}: between / within scatter {each.separation:.3f}" for row in panels for each in row]
    return {"": lda.draw(panels)}, words


KINDS = (("base", "test"), ("novel", "novel"))
FIGURES: dict[str, Callable[[Runs, Order], Drawn]] = {
    "plane": _plane,
    "training": _training,
    "similarity": _similarity,
    "neighbors": _neighbors,
    "gallery": _gallery,
    "search": _search,
    "lda": _lda,
}


def cloud(label: str, run: RunFolder) -> plane.Cloud:
    """The test features of a run with two of them."""
    arrays = _outputs(run)
    features = arrays["features"].astype(np.float32)
    return plane.Cloud(label, features, arrays["labels"][: len(features)], run.class_names())


def curve(label: str, runs: Sequence[RunFolder], name: str) -> training.Curve:
    """A measure of every seed over the epochs, counted from 1."""
    records = [{int(each["epoch"]) + 1: each[name] for each in run.metrics() if name in each} for run in runs]
    epochs = tuple(sorted({epoch for each in records for epoch in each}))
    values = np.array([[each.get(epoch, np.nan) for epoch in epochs] for each in records], dtype=float)
    seeds = tuple(int(run.recipe()["seed"]) for run in runs)
    return training.Curve(label, epochs, seeds, values.reshape(len(records), len(epochs)))


def matrix(label: str, runs: Sequence[RunFolder], order: Order = "class") -> similarity.Matrix:
    """The class similarities, averaged over seeds."""
    values = np.mean([_outputs(run)["similarity"] for run in runs], axis=0)
    plain = similarity.Matrix(label, values, runs[0].class_names())
    if order == "superclass":
        groups = runs[0].splits().get("groups")
        if not groups:
            raise OptionError(f"{runs[0].path} knows no super-classes of its data: give --order class or cluster.")
        return similarity.reorder(plain, groups=groups)
    return similarity.reorder(plain, by=order)


def mended(before: RunFolder, after: RunFolder, limit: int = 12) -> list[gallery.Picture]:
    """Test pictures that the second run gets right and the first wrong."""
    one, two = _outputs(before), _outputs(after)
    return gallery.find_corrected(
        one["pixels"], one["labels"], one["top5"], one["p5"], two["top5"], two["p5"], before.class_names(), limit
    )


def panel(label: str, run: RunFolder, name: str, classes: int = 8) -> lda.Panel:
    """Features of some classes, in the two directions that tell them apart best; the separation is that of all."""
    arrays = _outputs(run, name)
    features, labels = arrays["features"].astype(np.float64), arrays["labels"]
    labels = labels[: len(features)]
    names = tuple(map(str, arrays["class_names"])) if "class_names" in arrays else run.class_names()
    shown = labels < classes
    points = lda.project(features[shown], labels[shown])
    return lda.Panel(label, points, labels[shown], names[:classes], lda.separation(features, labels))


def sweeps_of(runs: Sequence[RunFolder]) -> dict[str, list[search.Sweep]]:
    """Accuracy over the weight of OPL and over the batch size, from runs that differ in nothing else."""
    weights: dict[float, list[float]] = {}
    sizes: dict[str, dict[float, list[float]]] = {"CE": {}, "CE+OPL": {}}
    for run in runs:
        recipe, accuracy = run.recipe(), run.result()["test/top1"]
        weight = recipe["method"].get("weight")
        label = "CE" if weight is None else "CE+OPL"
        if recipe["batch_size"] == 128 and weight is not None:
            weights.setdefault(weight, []).append(accuracy)
        if weight in (None, 1.0):
            sizes[label].setdefault(recipe["batch_size"], []).append(accuracy)
    baseline = tuple(sizes["CE"].get(128, ())) or None
    return {
        "weight": [_sweep("CE+OPL", "weight", weights, baseline)],
        "batch size": [_sweep(label, "batch size", values, None) for label, values in sizes.items()],
    }


def _sweep(
    label: str, setting: str, values: dict[float, list[float]], baseline: tuple[float, ...] | None
) -> search.Sweep:
    xs = tuple(sorted(values))
    return search.Sweep(label, setting, xs, tuple(tuple(values[x]) for x in xs), baseline)


def _outputs(run: RunFolder, name: str = "test") -> dict[str, Any]:
    arrays = run.outputs(name)
    if arrays is None:
        protocol = "geometry" if name == "test" else name
        raise FolderError(f"{run.path} has no readable {name}.npz: write it with opl evaluate {run.path} {protocol}.")
    return arrays
