"""Table 5: its averages over the targets, and its recipes."""

import math
import runpy
import statistics
from collections import Counter
from pathlib import Path

import pytest
import torch
from scipy.stats import t

from opl.experiments import paper
from opl.experiments.paper import table_5
from opl.experiments.results.comparisons import lines
from opl.experiments.results.runs import read_runs
from opl.experiments.run_folder import RunFolder


def write_result(out: Path, name: str, seed: int, top1: float, start: str = "scratch", done: bool = True) -> None:
    folder = RunFolder.of(out, name, seed)
    folder.start({"name": name, "seed": seed, "scale": "small"}, {})
    if done:
        numbers = dict.fromkeys(paper.item("table-5").metrics, top1)
        folder.finish({"x": torch.zeros(1)}, {**numbers, "start": start})


def test_the_average_is_that_of_the_targets_seed_by_seed_and_says_from_scratch(tmp_path):
    table = paper.item("table-5")
    values = {"art": (40.0, 44.0), "cartoon": (50.0, 50.0), "sketch": (30.0, 34.0), "photo": (60.0, 60.0)}
    for target, (first, second) in values.items():
        for seed, value in enumerate((first, second)):
            write_result(tmp_path, f"pacs-{target}-lite0-erm", seed, value)
            write_result(tmp_path, f"pacs-{target}-lite0-erm-opl", seed, value + 1 + seed)
        write_result(tmp_path, f"pacs-{target}-lite0-rsc", 0, 50.0, "a file", done=target != "photo")
    found = {line.recipe: line for line in lines(table, read_runs(tmp_path), "small") if not line.quoted}
    assert len(found) == 16 + 4
    erm, opl, rsc = (found[f"pacs-average-lite0-{name}"] for name in ("erm", "erm-opl", "rsc"))
    assert erm.label == "average ERM, from scratch"
    assert erm.values["test/top1"] == (45.0, 47.0)
    assert opl.values["test/top1"] == (46.0, 49.0)
    assert (opl.difference["test/top1"].mean, opl.difference["test/top1"].size) == (1.5, 2)
    assert (rsc.seeds, rsc.missing, rsc.paper) == ((), "seed 0 incomplete", {"test/top1": 87.47})
    assert found["pacs-art-lite0-rsc"].label == "Art RSC"
    assert found["pacs-photo-lite0-erm"].label == "Photo ERM, from scratch"


def test_the_paper_average_is_that_of_its_columns():
    rows = {row.recipe: row.paper for row in paper.item("table-5").rows}
    for average in paper.item("table-5").averages:
        if average.row.paper:
            mean = sum(rows[name]["test/top1"] for name in average.of) / 4
            assert average.row.paper["test/top1"] == pytest.approx(mean, abs=0.006)


def test_what_the_paper_quotes_averages_to_what_it_quotes():
    quoted = {each.label: each.paper["test/top1"] for each in paper.item("table-5").quoted}
    assert len(quoted) == 3 * 5
    for method in ("JiGen", "MASF", "MetaReg"):
        four = [quoted[f"{target} {method}"] for target in ("Art", "Cartoon", "Sketch", "Photo")]
        assert quoted[f"average {method}"] == pytest.approx(sum(four) / 4, abs=0.03)  # MetaReg's is rounded to 83.6
    assert quoted["Cartoon MASF"] > quoted["Cartoon MetaReg"] > quoted["Cartoon JiGen"]  # as the paper's column has it


def test_the_paper_selects_on_source_validation_and_the_small_scale_tests_the_last_epoch_of_pretrained_networks():
    table = paper.item("table-5")
    for scale, selection in (("paper", "best-val"), ("small", "last"), ("tiny", "best-val")):
        for row in table.at(scale):
            recipe = paper.recipe(row.recipe, scale)
            assert recipe.selection == selection
            assert not recipe.oracle
            assert bool(recipe.weights) == (scale != "tiny")
    targets = {paper.recipe(row.recipe, "small").data.target for row in table.at("small")}
    assert targets == {"art_painting", "cartoon", "sketch", "photo"}


def test_the_study_of_pretrained_networks_has_every_loss_and_target_at_two_lengths_and_shares_runs_with_table_5():
    study, table = paper.item("study-pretrained"), paper.item("table-5")
    made = [paper.recipe(row.recipe, "small") for row in study.at("small")]
    assert Counter((recipe.epochs, recipe.data.target) for recipe in made) == {
        (epochs, target): 5 for epochs in (3, 6) for target in ("art_painting", "cartoon", "sketch", "photo")
    }
    shared = {row.recipe for row in study.rows} & {row.recipe for row in table.rows}
    assert shared == {f"pacs-{target}-lite0-{key}" for target in table_5.TARGETS for key in ("erm", "erm-opl")}
    assert study.home == table.name
    assert {(recipe.data.train_images, recipe.data.test_images, recipe.data.split_seed) for recipe in made} == {
        (4000, 1000, -1)
    }


def test_few_images_are_of_all_domains_and_equal_for_all_losses():
    rows = paper.item("study-few-images").at("small")
    data = {paper.recipe(row.recipe, "small").data for row in rows}
    assert {(chosen.target, chosen.per_class) for chosen in data} == {("all", 10), ("all", 50)}


def test_the_pooled_effect_is_the_random_effects_mean_over_targets_and_lengths(tmp_path, capsys, monkeypatch):
    gains = dict(zip(table_5.TARGETS, (1.0, 2.0, 3.0, 2.0), strict=True))
    for length in table_5.LENGTHS:
        for target, gain in gains.items():
            for seed, noise in enumerate((-0.5, 0.0, 0.5)):
                write_result(tmp_path, f"pacs-{target}-lite0-erm{length}", seed, 50.0)
                write_result(tmp_path, f"pacs-{target}-lite0-erm-opl{length}", seed, 50.0 + gain + noise)
    monkeypatch.setattr("sys.argv", ["pretrained.py", str(tmp_path)])
    runpy.run_path(str(Path(__file__).parents[3] / "benchmarks" / "pretrained.py"), run_name="__main__")
    [both, *_] = [line for line in capsys.readouterr().out.splitlines() if "(paper)" in line]
    # equal variances, so all settings weigh the same: mean 2, and the standard error of 8 means over the t quantile
    means = [*gains.values(), *gains.values()]
    half = t.ppf(0.975, 7) * statistics.stdev(means) / math.sqrt(8)
    assert f"+2.00 [{2 - half:+.2f}, {2 + half:+.2f}]" in both
    assert "above 0 in 8 of 8" in both


def test_the_last_five_of_twenty_epochs_have_a_tenth_of_the_learning_rate_and_whole_batches():
    for key in ("erm", "rsc", "rsc-opl"):
        recipe = paper.recipe(f"pacs-art-{key}", "paper")
        factors = [recipe.schedule(epoch, 1, recipe.epochs) for epoch in range(recipe.epochs)]
        assert factors == pytest.approx([1.0] * 15 + [0.1] * 5)
        assert recipe.drop_last
