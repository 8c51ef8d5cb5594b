"""Rows whose number is a share of images: its binomial interval, seed by seed, which knows of few images."""

from ..tables import Item
from .comparisons import Runs


def shares(item: Item, scale: str, runs: Runs) -> list[str]:
    """A line for each row and each compared number that has such an interval among its results."""
    found = []
    for row in item.at(scale):
        mine = {seed: runs[row.recipe, seed].result() for recipe, seed in sorted(runs) if recipe == row.recipe}
        for name in item.main:
            there = {seed: result for seed, result in mine.items() if f"{name}/low" in result}
            if there:
                images = {int(result[f"{name}/images"]) for result in there.values()}
                each = ", ".join(_one(seed, result, name) for seed, result in there.items())
                counted = " or ".join(map(str, sorted(images)))
                found.append(f"{row.label}, {item.metrics[name]} of {counted} images (95 % by Wilson): {each}")
    return found


def _one(seed: int, result: dict[str, float], name: str) -> str:
    return f"{result[name]:.2f} [{result[f'{name}/low']:.2f}, {result[f'{name}/high']:.2f}] (seed {seed})"
