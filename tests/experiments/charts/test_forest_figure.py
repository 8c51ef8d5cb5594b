"""Differences from a baseline, drawn: every seed, means and intervals, and verdicts adjusted over all lines."""

from dataclasses import replace

import numpy as np
import pytest
from _figure_values import contrast, written

from _runs import write_run
from opl.experiments.charts import forest
from opl.experiments.item import Row
from opl.experiments.results.runs import read_runs, select_runs

pytest.importorskip("matplotlib", reason="matplotlib is not installed")

ROWS = (Row("CE", "ce", {}), Row("CE+OPL", "opl", {}, "ce"), Row("smoothing", "smooth", {}, "ce"))
ACCURACIES = {
    "ce": (70.0, 70.4, 69.8, 70.1, 70.2, 70.3),
    "opl": (71.1, 71.3, 70.9, 71.3, 71.1, 71.5),
    "smooth": (70.1, 70.1, 70.0, 69.8, 70.5, 70.2),
}


def test_every_seed_the_mean_and_the_interval_of_scipy_are_drawn(tmp_path):
    stats = pytest.importorskip("scipy.stats", reason="scipy is not installed")
    for name, values in ACCURACIES.items():
        for seed in range(len(values)):
            write_run(tmp_path, name, seed)
    runs = [
        replace(run, result={**run.result, "test/top1": ACCURACIES[run.name][run.seed]}) for run in read_runs(tmp_path)
    ]
    rendered = forest.render([(row, select_runs(runs, row.recipe, "small")) for row in ROWS], "class")
    [axes] = rendered.figures[""].axes
    pairs = np.subtract(ACCURACIES["opl"], ACCURACIES["ce"])
    dots, mean, line = axes.get_lines()[1:4]
    assert sorted(dots.get_xdata()) == pytest.approx(sorted(pairs))
    assert mean.get_xdata() == pytest.approx([pairs.mean()])
    assert line.get_xdata() == pytest.approx(stats.t.interval(0.95, 5, loc=pairs.mean(), scale=stats.sem(pairs)))
    assert [label.get_text() for label in axes.get_yticklabels()] == ["CE+OPL", "smoothing"]
    assert any("a gain" in word for word in written(rendered.figures[""]))
    assert rendered.words[0].startswith(f"CE+OPL: +{pairs.mean():.2f} [")


def test_few_seeds_have_dots_and_no_interval():
    [axes] = forest.draw([contrast(seeds=3)]).axes
    assert [len(line.get_xdata()) for line in axes.get_lines()[1:]] == [3, 1]
