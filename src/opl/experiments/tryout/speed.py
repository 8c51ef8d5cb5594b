"""`python -m opl.experiments.tryout.speed RECIPES RESULT`: the training speed of recipes, in images per second.

It runs as a separate process in place of a run, with the same threads, accelerator and parallel processes. The recipes
are in groups, the cheapest first; once all recipes of a group are slower than needed, later groups are not measured.
"""

import itertools
import json
import sys
import time
from pathlib import Path

import torch

from ..files import read_json, write_whole
from ..recipe import Recipe
from ..training.build import batches, build_model, build_objective, parse_recipe
from ..training.engine import launch
from ..training.stopping import end_with_parent


def measure_speed(recipe: Recipe, seconds: float) -> float:
    """Return the training images per second, measured for some seconds after the first step."""
    fabric = launch(recipe)
    splits = recipe.data.load(recipe.seed)
    model = build_model(recipe).to(fabric.device)
    data = batches(fabric, recipe, splits.train)
    objective = build_objective(recipe, model, splits.train, data.steps).to(fabric.device)
    optimizer = recipe.optimizer.build([*model.parameters(), *objective.parameters()])
    images, started = 0, 0.0
    endless = itertools.chain.from_iterable(map(data.epoch, itertools.count()))
    for step, batch in enumerate(endless):
        before = time.perf_counter()
        with fabric.autocast():
            loss = objective(model, batch).total
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if fabric.device.type == "cuda":
            torch.cuda.synchronize()
        now = time.perf_counter()
        if step == 0:  # allocates and compiles
            started = now
            if now - before > seconds:
                return len(batch.labels) / (now - before)
            continue
        images += len(batch.labels)
        if now - started > seconds:
            break
    return images / (time.perf_counter() - started)


def main(argv: list[str]) -> int:
    """Measure recipes, and write their speeds and the total seconds."""
    recipes, result = map(Path, argv)
    content = read_json(recipes)
    speeds: list[list[float]] = []
    started = time.perf_counter()
    for group in content["groups"]:
        speeds.append([measure_speed(parse_recipe(settings), content["seconds"]) for settings in group])
        if max(speeds[-1]) < content["least"]:
            break
    result_json = {"images_per_second": speeds, "seconds": time.perf_counter() - started}
    write_whole(result, json.dumps(result_json).encode())
    return 0


if __name__ == "__main__":
    end_with_parent()
    sys.exit(main(sys.argv[1:]))
