"""The model card: front matter, numbers vs independent ones, and limitations."""

import math
from dataclasses import replace
from statistics import fmean, stdev

import numpy as np
import pytest
from scipy.stats import ttest_1samp, ttest_rel

from _exported_runs import CUSTOM, DIGITS, write_rows, write_untrained
from _finished_runs import dump, load
from _vouched import metric_lines, vouch
from opl.experiments.data import Cifar100
from opl.experiments.export.bundle import export_run
from opl.experiments.export.subject import measure, read_subject
from opl.experiments.models import CifarResNet


def card_of(run, target, **more) -> str:
    export_run(run, target, license="mit", **more)
    return (target / "README.md").read_text()


def test_intervals_over_seeds_equal_those_of_scipy(tmp_path):
    top1 = next(each for each in measure(read_subject(write_rows(tmp_path))) if each.metric == "test/top1")
    ours, theirs = [96.0, 97.5, 99.0], [95.0, 96.0, 97.0]
    assert top1.value == ours[1]
    assert (top1.seeds, tuple(top1.paired)) == ((0, 1, 2), (0, 1, 2))
    interval, paired = ttest_1samp(ours, 0).confidence_interval(), ttest_rel(ours, theirs)
    assert (top1.mean.low, top1.mean.high) == pytest.approx((interval.low, 100.0))  # SciPy's ends above 100 %
    between = paired.confidence_interval()
    assert (top1.difference.low, top1.difference.high) == pytest.approx((between.low, between.high))
    assert top1.decision.p == pytest.approx(paired.pvalue)
    assert top1.decision.verdict == "a gain"


def test_the_card_shows_these_numbers(tmp_path):
    card = card_of(write_rows(tmp_path / "runs"), tmp_path / "export")
    half = 4.302653 * stdev([96.0, 97.5, 99.0]) / math.sqrt(3)
    mean, row = fmean([96.0, 97.5, 99.0]), next(line for line in card.splitlines() if line.startswith("| top-1 %"))
    assert f"| 97.50 | {mean:.2f} [{mean - half:.2f}, 100.00] (seeds 0 to 2) | +1.50 [+0.26, +2.74], a gain" in row
    assert "difference to CE" in card
    assert "opl train digits-opl --scale small --seed 1" in card
    for fact in (
        "06f8644cf3",
        "2.13.0+cpu",
        "Linux-6.1",
        "62 s of training",
        "899 training, 3 validation and 898 test",
    ):
        assert fact in card, fact


def test_the_front_matter_is_what_the_hub_reads(tmp_path):
    from huggingface_hub import ModelCard

    recipe = replace(CUSTOM, name="mine", data=Cifar100(classes=7), model=CifarResNet(depth=8, width=8))
    run = write_untrained(tmp_path / "runs", recipe, top1=61.25)
    text = card_of(run, tmp_path / "export", source="somebody/mine")
    data = ModelCard(text).data
    assert (data.license, data.library_name, data.pipeline_tag) == ("mit", "opl", "image-classification")
    assert data.datasets == ["uoft-cs/cifar100"]
    result = data.eval_results[0]
    assert (result.dataset_type, result.metric_type, result.metric_value) == ("uoft-cs/cifar100", "accuracy", 61.25)
    assert data.model_name == "mine"
    assert 'from_pretrained("somebody/mine")' in text


def test_custom_run_is_marked_and_not_compared(tmp_path):
    write_rows(tmp_path / "runs")
    recipe = replace(CUSTOM, name="digits-opl", seed=7)
    card = card_of(write_untrained(tmp_path / "runs", recipe, top1=50.0), tmp_path / "export")
    assert "in no table" in card
    assert "other settings: epochs 1 (recipe: 40)" in card
    assert "| top-1 % | 50.00 | 50.00 (seed 7) |\n" in card
    assert "difference to" not in card
    assert "opl train" not in card
    assert "training.json" in card


def test_single_run_has_no_interval_and_no_comparison(tmp_path):
    write_rows(tmp_path / "runs").rename(tmp_path / "moved")
    card = card_of(tmp_path / "moved", tmp_path / "export")
    assert "| top-1 % | 97.50 | 97.50 (seed 1) |\n" in card
    assert "its folder is" in card


def test_run_without_baseline_has_no_comparison(tmp_path):
    from opl.experiments import paper

    card = card_of(write_untrained(tmp_path / "runs", paper.recipe("digits-opl", "small")), tmp_path / "export")
    assert "There are no runs of the baseline, CE" in card
    assert "One seed says nothing about the variation" in card


def test_edited_runs_of_other_seeds_are_left_out(tmp_path):
    run = write_rows(tmp_path / "runs")
    edited = run.parent / "seed-2" / "result.json"
    dump(edited, {**load(edited), "test/top1": 100.0})
    card = card_of(run, tmp_path / "export")
    assert "| 97.50 | 96.75 [87.22, 100.00] (seeds 0 to 1) |" in card


def test_figures_show_what_the_run_has(tmp_path):
    run = write_untrained(tmp_path / "runs", DIGITS)
    epochs = [{"epoch": epoch, "train/loss": 1 / (epoch + 1), "seconds": 1} for epoch in range(40)]
    (run / "metrics.jsonl").write_text(metric_lines(epochs))
    np.savez(run / "test.npz", similarity=np.eye(10, dtype=np.float32))
    vouch(run)
    card = card_of(run, tmp_path / "export")
    for name in ("training.png", "similarity.png"):
        assert (tmp_path / "export" / name).read_bytes().startswith(b"\x89PNG")
        assert f"]({name})" in card
    (run / "metrics.jsonl").unlink()
    np.savez(run / "test.npz", similarity=np.eye(3, 4, dtype=np.float32))
    vouch(run)
    assert "](training.png)" not in card_of(run, tmp_path / "again")
    assert sorted(path.suffix for path in (tmp_path / "again").iterdir()) == [".json", ".json", ".md", ".safetensors"]


def test_limitations_are_listed(tmp_path):
    recipe = replace(CUSTOM, scale="small", changes=())
    run = write_untrained(tmp_path / "runs", recipe, result={"selection": "last, guided by the TEST set as released"})
    dump(run / "noise.json", {"matrix": [], "rates": {"train": 0.4}})
    vouch(run)
    card = card_of(run, tmp_path / "export")
    for expected in ("used the test set for selection", "Corrupted labels: 40.0 % of train", "10 classes of digits"):
        assert expected in card, expected
    assert "at a reduced scale" in card
