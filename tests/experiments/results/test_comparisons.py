"""Rows compared image by image and episode by episode."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats

from opl.experiments.evaluation.protocols import FewShot
from opl.experiments.item import Item, Row
from opl.experiments.paper import item
from opl.experiments.report.page import write_report
from opl.experiments.results.comparisons import compare, describe_comparison, wilson_lines
from opl.experiments.results.runs import read_runs
from opl.experiments.results.tables import build_table, cells
from opl.experiments.run_folder import RunFolder
from opl.experiments.statistics import wilson


def made_up_runs(out):
    """Finished runs of two rows, with measures of four images."""
    metric = "attack/autoattack-linf-8-255"
    for name, outcomes in (("madry", [0, 0, 100, 100]), ("madry-opl", [0, 100, 100, 100])):
        folder = RunFolder.of(out, f"cifar100-robust-{name}", 0)
        folder.start({"name": f"cifar100-robust-{name}", "seed": 0, "scale": "small"}, {})
        folder.finish({}, {"test/top1": 60.0, "attack/pgd-20-linf-8-255": 70.0})
        low, high = wilson(sum(outcomes) // 100, 4)
        numbers = {metric: sum(outcomes) / 4, f"{metric}/low": 100 * low, f"{metric}/high": 100 * high}
        [settings] = [
            settings
            for measure in item("table-4").measures
            for name, settings in zip(measure.names, measure.settings, strict=True)
            if name == "attack-autoattack-linf-8-255" and "small" in measure.scales
        ]
        content = {"numbers": {**numbers, f"{metric}/images": 4}, "settings": settings}
        folder.write_measure("attack-autoattack-linf-8-255", content, {"each": np.array(outcomes, dtype=np.float32)})
    return read_runs(out)


def test_rows_are_compared_image_by_image_and_have_their_binomial_interval(tmp_path):
    runs = made_up_runs(tmp_path)
    [difference] = compare(item("table-4"), runs, "small")
    assert difference.difference.mean == 25
    assert "AutoAttack %, over the same 4 images (seed 0): +25.00" in describe_comparison(difference)
    lines = wilson_lines(item("table-4"), runs, "small")
    assert len(lines) == 2
    assert "Madry, AutoAttack % of 4 images (95 % by Wilson): 50.00 [15.00, 85.00] (seed 0)" in lines[0]


QUICK = FewShot(queries=5, episodes=30)


def test_differences_are_taken_episode_by_episode_and_averaged_over_seeds(tmp_path):
    columns_of_runs = {QUICK.metric: "1-shot %", replace(QUICK, shot=5).metric: "5-shot %"}
    rows = (Row("A", "a", {}), Row("B", "b", {QUICK.metric: 71.0}, "a"))
    table = Item("x", "x", "x", columns_of_runs, rows, compared=tuple(columns_of_runs), what="method")
    chance = np.random.default_rng(0)
    accuracies = {}
    for recipe in ("a", "b"):
        for seed in (0, 1):
            folder = RunFolder.of(tmp_path, recipe, seed)
            folder.start({"name": recipe, "seed": seed, "scale": "tiny"}, {})
            folder.finish({"x": torch.full((1,), float(seed))}, {"test/top1": 1.0})
            for name in columns_of_runs if (recipe, seed) != ("b", 1) else list(columns_of_runs)[:1]:
                accuracies[recipe, seed, name] = chance.normal(50, 5, 40)
                values = {"numbers": {name: float(accuracies[recipe, seed, name].mean())}}
                folder.write_measure(name.replace("/", "-"), values, {"each": accuracies[recipe, seed, name]})
    first, second = compare(table, read_runs(tmp_path), "tiny")
    name = next(iter(columns_of_runs))
    differences = np.mean([accuracies["b", seed, name] - accuracies["a", seed, name] for seed in (0, 1)], axis=0)
    low, high = stats.t.interval(0.95, 39, loc=differences.mean(), scale=stats.sem(differences))
    assert (first.difference.low, first.difference.high) == pytest.approx((low, high))
    assert (first.seeds, second.seeds) == ((0, 1), (0,))
    assert "over the same 40 episodes (mean of 2 seeds)" in describe_comparison(first)
    columns_of_runs = build_table(table, read_runs(tmp_path), "tiny")
    result = columns_of_runs.lines
    assert result[1].seeds == (0,)
    assert result[1].missing == "seed 1 not measured"
    heading, body = cells(columns_of_runs)
    assert heading[:2] == ["method", "seeds"]
    assert heading[-2:] == ["difference in 1-shot %", "difference in 5-shot %"]
    assert body[1][4] == "71.00"
    page = write_report(tmp_path, {"x": table}).read_text()
    assert "Differences over the same 40 episodes" in page
    assert f"{first.difference.mean:+.2f} [{first.difference.low:+.2f}, {first.difference.high:+.2f}]" in page
