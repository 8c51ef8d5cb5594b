"""Select the winner of the screen by the rules of docs/study.md: weights by seed 0, the winner by all seeds.

python benchmarks/screen.py FOLDER

All numbers are measured on validation images at the last epoch. For each arm, the weight (for label smoothing, the
amount) with the highest accuracy at seed 0 is selected. Then the means over all seeds shared with cross-entropy are
printed, and whether the prediction of the arm came true: d, or for prototypes the largest class cosine, is below the
value of cross-entropy.
"""

import argparse
from statistics import fmean

from opl.experiments.paper.study import ARMS, SMOOTHINGS, WEIGHTS, screen_name
from opl.experiments.results.runs import Run, read_runs

PREDICTIONS = {"auto": "d", "log-ratio": "d", "ramp-1": "d", "ramp-2": "d", "prototypes": "class_cosine"}
PAPER = ("opl", "opl-gamma-1")  # no variants, so they cannot win
TIE = 0.1  # points
NUMBERS = ("val/top1", "s", "d", "class_cosine")

Table = dict[tuple[str, int], Run]


def last(runs: Table, name: str, seed: int, number: str) -> float:
    """Return a number of the last epoch of a run."""
    return float(runs[name, seed].records[-1][number])


def choose(runs: Table, arm: str, values: tuple[float, ...]) -> float | None:
    """Return the weight (or smoothing) with the highest accuracy at seed 0; None until all runs are done."""
    if any((screen_name(arm, value), 0) not in runs for value in values):
        return None
    return max(values, key=lambda value: last(runs, screen_name(arm, value), 0, "val/top1"))


def means(runs: Table, name: str) -> dict[str, float]:
    """Return the means of an arm over its seeds."""
    seeds = [seed for known, seed in runs if known == name]
    return {number: fmean(last(runs, name, seed, number) for seed in seeds) for number in NUMBERS}


def show_round_one(runs: Table) -> None:
    """Print the accuracy of every weight at seed 0."""
    print(f"seed 0, validation top-1 %, {screen_name('ce')} {last(runs, screen_name('ce'), 0, 'val/top1'):.2f}")
    for arm, values in {"smooth": SMOOTHINGS, **dict.fromkeys(ARMS, WEIGHTS)}.items():
        there = [value for value in values if (screen_name(arm, value), 0) in runs]
        words = "  ".join(f"{value:g}: {last(runs, screen_name(arm, value), 0, 'val/top1'):.2f}" for value in there)
        print(f"{arm:<14}{words}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    finished = [run for run in read_runs(parser.parse_args().folder) if run.folder.done]
    runs: Table = {(run.name, run.seed): run for run in finished if run.scale == "small"}
    show_round_one(runs)
    base = means(runs, screen_name("ce"))
    print(f"\n{'arm':<14}{'weight':>8}{'seeds':>7}{'top-1 %':>9}{'- CE':>8}{'s':>8}{'d':>8}{'cosine':>8}  prediction")
    found: dict[str, float] = {}
    for arm, values in {"ce": (), "smooth": SMOOTHINGS, **dict.fromkeys(ARMS, WEIGHTS)}.items():
        weight = choose(runs, arm, values) if values else None
        if weight is None and values:
            continue
        name = screen_name(arm, weight)
        own, seeds = means(runs, name), sum(known == name for known, _ in runs)
        number = PREDICTIONS.get(arm)
        kept = "" if number is None else f"{number} {'falls' if own[number] < base[number] else 'does not fall'}"
        print(
            f"{arm:<14}{'' if weight is None else f'{weight:g}':>8}{seeds:>7}{own['val/top1']:>9.2f}"
            f"{own['val/top1'] - base['val/top1']:>+8.2f}{own['s']:>8.3f}{own['d']:>8.3f}{own['class_cosine']:>8.3f}"
            f"  {kept}"
        )
        if arm in ARMS and arm not in PAPER:
            found[arm] = own["val/top1"]
    best = max(found.values(), default=0.0)
    near = [arm for arm, value in found.items() if value >= best - TIE]
    print(f"\nvariants within {TIE:g} points of the highest mean: {', '.join(near) or 'none are there yet'}")


if __name__ == "__main__":
    main()
