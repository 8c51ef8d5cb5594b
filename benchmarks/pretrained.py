"""Pool study-pretrained over its domains by the rules of docs/study.md: a random-effects mean per loss.

python benchmarks/pretrained.py FOLDER

FOLDER holds runs or, like `results`, records. A setting is a target domain at one length of training: the mean
difference in target accuracy from cross-entropy over seeds, with variances moderated over all settings. The p-values
are adjusted over the four losses (Holm); a loss without runs counts as p = 1.
"""

import argparse
from pathlib import Path

from opl.experiments.paper.table_5 import ARMS, LENGTHS, LITE0, STUDY_PRETRAINED, TARGETS, name_of
from opl.experiments.results.comparisons import describe_difference, lines
from opl.experiments.results.records import read_records
from opl.experiments.results.runs import read_runs
from opl.experiments.statistics import Interval, holm, interval, moderate, p_value, random_effects

METRIC, SCALE = "test/top1", "small"
FAMILIES = {"both lengths": tuple(LENGTHS)} | {f"{epochs} epochs": (length,) for length, epochs in LENGTHS.items()}


def read_effects(folder: Path) -> dict[str, Interval]:
    """Return the moderated difference of each recipe from cross-entropy."""
    runs = read_records(folder) or read_runs(folder)
    pairs = {line.recipe: line.pairs.get(METRIC, ()) for line in lines(STUDY_PRETRAINED, runs, SCALE)}
    names = [row.recipe for row in STUDY_PRETRAINED.rows if len(pairs.get(row.recipe, ())) > 1]
    return dict(zip(names, moderate([interval(pairs[name]) for name in names]), strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    effects = read_effects(parser.parse_args().folder)
    losses = {key: arm.label for key, arm in ARMS.items() if arm.baseline}
    for title, lengths in FAMILIES.items():
        names = {
            key: [name_of(target, LITE0, key + ending) for ending in lengths for target in TARGETS] for key in losses
        }
        settings = {key: [effects[name] for name in names[key] if name in effects] for key in losses}
        means = {key: random_effects(chosen) for key, chosen in settings.items() if len(chosen) > 1}
        print(f"\n{title}: target accuracy, difference from cross-entropy")
        p_values = [p_value(means[key]) if key in means else 1.0 for key in losses]
        adjusted = dict(zip(losses, holm(p_values), strict=True))
        for key, mean in means.items():
            above = sum(effect.mean > 0 for effect in settings[key])
            pooled = f"{describe_difference(mean):>24}  p {adjusted[key]:.3f}"
            print(f"{losses[key]:<38}{pooled}  above 0 in {above} of {len(settings[key])} settings")


if __name__ == "__main__":
    main()
