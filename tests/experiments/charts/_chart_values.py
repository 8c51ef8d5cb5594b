"""Values for every chart, and the text of a drawn figure."""

import numpy as np
import pytest

from _runs import write_run
from opl.experiments.charts import curves, features, flow, forest, gallery, lda, plane, similarity, sweeps
from opl.experiments.charts.points import Space
from opl.experiments.results.comparisons import PERCENT
from opl.experiments.results.runs import read_runs, select_runs
from opl.experiments.statistics import decide, interval

pytest.importorskip("matplotlib", reason="matplotlib is not installed")

HOSTILE = (
    "<b>x</b>",
    "x" * 90,
    "x" * 91,
    "日本語 🐬",
    "$\\frac{$",
    "_hidden",
    "a\x00b\nc",
    "<img src=x onerror=alert(1)>",
    '%{x} & "it\'s"',
    "",
)


def rng():
    return np.random.default_rng(0)


def at(*degrees, label="CE", names=None):
    """A cloud with one feature of length 3 and its own class at each angle."""
    angles = np.radians(degrees)
    features = 3 * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    return Space(label, features, np.arange(len(degrees)), names or tuple(f"class {i}" for i in range(len(degrees))))


def cloud(label="CE", samples=90, names=("cat", "dog", "owl")):
    labels = np.arange(samples) % len(names)
    return Space(label, rng().normal(size=(samples, 2)) + 3 * labels[:, None], labels, names)


def curve(label="CE", seeds=3, epochs=5):
    return curves.Curve(label, tuple(range(1, epochs + 1)), tuple(range(seeds)), rng().normal(size=(seeds, epochs)))


def path(label="CE"):
    return flow.Path(label, np.linspace(0.5, 0.9, 5), np.linspace(0.5, 0.2, 5))


def matrix(label="CE", count=6, names=None):
    values = rng().uniform(-1, 1, (count, count))
    values = (values + values.T) / 2
    np.fill_diagonal(values, 1)
    return similarity.Matrix(label, values, names or tuple(f"class {i}" for i in range(count)))


def picture(truth="cat", size=8, channels=3):
    pixels = rng().integers(0, 256, (size, size, channels), dtype=np.uint8)
    return gallery.Picture(pixels, truth, (("dog", 0.6), (truth, 0.4)), ((truth, 0.9), ("dog", 0.1)))


def sweep(label="CE+OPL", baseline=(70.0, 71.0)):
    return sweeps.Sweep(label, "lambda", (0.1, 1.0, 2.0), ((71.0, 72.0), (73.0, 73.5), (70.0,)), baseline)


def panel(label="CE", names=("cat", "dog", "owl")):
    labels = np.arange(60) % len(names)
    features = rng().normal(size=(60, 8)) + labels[:, None]
    return lda.Panel(label, lda.project(features, labels), labels, names, lda.separation(features, labels))


def space(label="CE", names=("cat", "dog", "owl"), signed=False):
    labels = np.arange(60) % len(names)
    values = rng().normal(size=(60, 8)) + 3 * np.eye(len(names), 8)[labels]
    return Space(label, values if signed else np.abs(values), labels, names)


def contrast(label="CE+OPL", seeds=6, shift=1.0):
    pairs = tuple((rng().normal(size=seeds) + shift).tolist())
    difference = interval(pairs, within=PERCENT.of_differences)
    return forest.Contrast(label, difference, decide([difference], [pairs])[0], pairs)


DRAWN = {
    "forest": lambda: forest.draw([contrast(), contrast("CE with label smoothing", 3, -9.0), contrast("new", 0)]),
    "features": lambda: features.draw([space("CE"), space("CE+OPL", signed=True)]),
    "flow": lambda: flow.draw([path("CE"), path("CE+OPL")]),
    "plane": lambda: plane.draw([cloud("CE"), cloud("CE+OPL")]),
    "curves": lambda: curves.draw({"s": [curve("CE"), curve("CE+OPL")], "d": [curve("CE"), curve("CE+OPL")]}),
    "similarity": lambda: similarity.draw([matrix("CE"), matrix("CE+OPL")]),
    "gallery": lambda: gallery.draw(
        {"fixed": [picture("cat"), picture("owl")], "broken": [picture("bee", channels=1)], "else": []}
    ),
    "sweeps": lambda: sweeps.draw({"lambda": [sweep()], "batch size": [sweep("CE", None), sweep("CE+OPL", None)]}),
    "lda": lambda: lda.draw(
        [[panel("CE"), panel("CE+OPL")], [panel("CE", ("bee", "fox")), panel("OPL", ("bee", "fox"))]]
    ),
}


def rows_with(folder, rows, values, **methods):
    """Rows with finished runs whose results are given: by metric and recipe, one number per seed."""
    for row in rows:
        for seed in range(max(len(numbers[row.recipe]) for numbers in values.values())):
            write_run(folder, row.recipe, seed, method=methods.get(row.recipe))
    runs = read_runs(folder)
    for run in runs:
        for name in [name for name in run.result if name.startswith("test/")]:
            del run.result[name]
        run.result.update({name: numbers[run.name][run.seed] for name, numbers in values.items()})
    return [(row, select_runs(runs, row.recipe, "small")) for row in rows]


def written(figure) -> list[str]:
    """Every text of a figure."""
    from matplotlib.text import Text

    return [text.get_text() for text in figure.findobj(Text) if text.get_text()]


def legend(figure) -> list[str]:
    from matplotlib.legend import Legend

    return [text.get_text() for box in figure.findobj(Legend) for text in box.get_texts()]


def predictions(samples=40, classes=7):
    random = rng()
    labels = random.integers(0, classes, samples)
    top = [np.stack([random.permutation(classes)[:5] for _ in range(samples)]) for _ in range(2)]
    top[1][: samples // 2, 0] = labels[: samples // 2]  # the second model gets these right
    p = [np.sort(random.dirichlet(np.ones(5), samples), axis=1)[:, ::-1] for _ in range(2)]
    return labels, top[0], p[0], top[1], p[1]
