"""Synthetic runs of every row of an item, with the settings of their recipes, so that its figure can be drawn."""

import json

import numpy as np

from _runs import write_novel, write_run
from _vouched import vouch
from opl.experiments.charts.figure import ARRAYS
from opl.experiments.paper import recipe
from opl.experiments.settings import to_json
from opl.experiments.widths import uniform_widths

LONG = ("sweet_pepper", "aquarium_fish", "pickup_truck", "Staffordshire bullterrier, Staffordshire bull terrier")
"""Names as they are in real data: with underscores, and longer than any label can be."""

CLASSES = {"paper": 100, "small": 20, "tiny": 10}


def names_of(count):
    """Class names of many lengths, the longest of all data sets among them."""
    return tuple(LONG[place] if place < len(LONG) else f"class {'of ' * (place % 3)}{place}" for place in range(count))


def write_item_runs(out, item, scale, seeds=None, *, signed=False):
    """The runs of an item's rows; accuracies above 99 %, so that intervals would leave what is possible.

    Args:
        out: the folder of the runs.
        item: a table or figure.
        scale: of the recipes.
        seeds: of each row; the item's own number if None.
        signed: whether features have negative parts, so that class means point away from each other.
    """
    for place, row in enumerate(item.at(scale)):
        made = recipe(row.recipe, scale)
        classes = to_json(made)["data"].get("classes") or (10 if item.figure == "plane" else CLASSES[scale])
        for seed in range(seeds or item.seeds_at(scale)):
            path = write_run(
                out,
                row.recipe,
                seed,
                scale=scale,
                gain=(5.0 if item.figure == "gallery" else 45.2) - place / 9,
                pull=0.2 if row.baseline else 0.5,
                class_names=names_of(classes),
                outputs=item.figure in ARRAYS,
                feature_dim=2 if item.figure == "plane" else max(16, classes),
            )
            _settle(path, made, seed)
            if signed:
                _sign(path)
            if item.figure == "lda":
                write_novel(path, 20)
            vouch(path)
    return out


def _settle(path, made, seed):
    """Write what the recipe of the row says into a run, and what a search of widths found."""
    about = json.loads((path / "recipe.json").read_text())
    settings = {**to_json(made), "seed": seed}
    opl = {"opl": to_json(made.method.opl), "baseline": to_json(made.method.baseline())}
    (path / "recipe.json").write_text(json.dumps({**about, **opl, "recipe": settings}))
    if "network" in settings["model"]:
        network, ratio = settings["model"]["network"], settings["model"]["ratio"]
        start = uniform_widths(network, ratio)
        path_of_search = [[max(1, round(width * (1 + 0.1 * turn))) for width in start] for turn in range(3)]
        found = {"network": network, "widths": path_of_search[-1], "history": path_of_search[:-1]}
        result = json.loads((path / "result.json").read_text())
        (path / "result.json").write_text(json.dumps({**result, "scaling": found}))


def _sign(path):
    """Let the class means of a run point away from each other too."""
    with np.load(path / "test.npz") as file:
        arrays = dict(file)
    arrays["similarity"] = np.cos(
        np.subtract.outer(np.arange(len(arrays["similarity"])), np.arange(len(arrays["similarity"]))) / 2
    )
    np.savez_compressed(path / "test.npz", **arrays)
