"""Test the rule for gamma on runs: does the sign of gamma_needed - gamma predict the sign of the change of d?

python benchmarks/gamma_rule.py FOLDER [FOLDER ...] [--epochs 3]

Every run with OPL and a constant gamma is compared with the run of the same settings and seed without OPL, epoch by
epoch. The rule takes s, d and the numbers of classes and held-out images from the run without OPL. Epochs without
held-out images, and epochs for which the rule has no threshold, are left out.
"""

import argparse
import json
import math
from collections import defaultdict
from collections.abc import Iterable

from opl.experiments.results.runs import Run, read_runs
from opl.experiments.results.tables import count_of
from opl.functional import gamma_needed


def key_of(run: Run, method: dict) -> str:
    """Return all settings except the name, with this method."""
    ignored = ("name", "changes", "method", "log")
    settings = {name: value for name, value in run.recipe.items() if name not in ignored}
    return json.dumps([settings, method], sort_keys=True)


def agreements(run: Run, base: Run, epochs: int) -> list[bool]:
    """Return for each of the first common epochs whether d differs as predicted."""
    gamma, found = float((run.opl or {})["gamma"]), []
    classes = count_of(base.splits().get("class_names"))
    per_class = count_of(base.splits().get("val")) / max(1, classes)
    for ours, theirs in zip(run.records[:epochs], base.records[:epochs], strict=False):
        s, d, with_opl = theirs.get("s", math.nan), theirs.get("d", math.nan), ours.get("d", math.nan)
        needed = float(gamma_needed(s, d, classes, per_class))
        if all(map(math.isfinite, (needed, with_opl))):
            found.append((with_opl > d) == (needed > gamma))
    return found


def compare(runs: Iterable[Run], epochs: int) -> dict[str, list[bool]]:
    """Return the agreements of all pairs of runs, by scale and recipe."""
    runs = [run for run in runs if len(run.records)]
    bases = {key_of(run, run.method): run for run in runs if not run.projects}
    settings: dict[str, list[bool]] = defaultdict(list)
    for run in runs:
        base = bases.get(key_of(run, run.baseline_method))
        if run.projects and base is not None and (run.opl or {}).get("kind") == "OPL":
            settings[f"{run.scale} {run.name}, gamma {run.opl['gamma']:g}"] += agreements(run, base, epochs)
    return settings


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="+")
    parser.add_argument("--epochs", type=int, default=3)
    given = parser.parse_args()
    found = compare((run for folder in given.folders for run in read_runs(folder)), given.epochs)
    for name, agreed in sorted(found.items()):
        print(f"{name:<70}{sum(agreed):>5} of {len(agreed)}")
    every = [each for agreed in found.values() for each in agreed]
    share = 100 * sum(every) / max(1, len(every))
    print(f"{len(found)} settings, {len(every)} epochs: {share:.1f} % as the rule says")


if __name__ == "__main__":
    main()
