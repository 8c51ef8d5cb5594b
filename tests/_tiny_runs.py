"""Tiny finished runs of table 1, for the tests of what is measured and drawn from them."""

from dataclasses import replace

from opl.experiments import paper
from opl.experiments.training.run import run

TINY = {name: paper.recipe(f"cifar100-resnet56-{name}", "tiny") for name in ("ce", "opl")}


def write_tiny_runs(runs):
    """Two rows, two seeds, of synthetic pictures."""
    out = runs / "tiny" / "table-1"
    for recipe in TINY.values():
        for seed in (0, 1):
            run(replace(recipe, seed=seed), out)
    return out
