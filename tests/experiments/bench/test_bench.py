"""The command that measures speed and memory, and its subjects."""

import json
from importlib import import_module
from pathlib import Path
from typing import get_args

import pytest

import opl
from opl.experiments import bench as benches
from opl.experiments import cli
from opl.experiments.bench import costs, episode_fits, steps

PACKAGE = Path(opl.__file__).parent


def measured(argv, capsys):
    assert cli.main(["bench", *argv, "--seconds", "0.01", "--json"]) == 0
    return list(json.loads(capsys.readouterr().out).values())


@pytest.mark.slow
def test_bench_measures_all_versions_of_a_case(monkeypatch, capsys):
    monkeypatch.setattr(costs, "SPEED", [costs.Case(32, 8, 4, False), costs.Case(32, 8, 4, True)])
    monkeypatch.setattr(costs, "MEMORY", [costs.Case(2048, 16, 10, True)])
    speed, (memory,) = measured(["loss"], capsys)
    for row in speed:
        assert row["floor ms"] > 0
        assert row["faster"] == pytest.approx(row["textbook ms"] / row["opl ms"])
    assert memory["textbook"] * memory["matrix MiB"] * 2**20 > 2048 * 2048 * 4  # at least its matrix of cosines
    assert 0 < memory["opl"] < memory["textbook"]


def test_the_textbook_version_is_the_loss():
    import torch

    features, labels = torch.randn(30, 7), torch.randint(0, 4, (30,))
    torch.testing.assert_close(opl.orthogonal_projection(features, labels).loss, costs.textbook(features, labels))


def test_every_subject_has_a_function_in_its_module():
    assert set(benches.MODULES) == set(get_args(benches.Subject))
    for subject, name in benches.MODULES.items():
        module = import_module(f"{benches.__name__}.{name}")
        assert Path(module.__file__).is_relative_to(PACKAGE)
        assert callable(getattr(module, f"measure_{subject}"))


@pytest.mark.slow
def test_episodes_are_classified_like_scikit_learn_does():
    row = episode_fits.compare_classifiers(episode_fits.Case(1, 2), chunks=1)
    assert row["equal %"] > 99
    assert 40 < row["accuracy"] < 90  # generator is 20
    assert row["faster"] == pytest.approx(row["scikit-learn s"] / row["ours s"])


@pytest.mark.slow
def test_the_losses_of_table_1_are_measured():
    ((title, rows),) = costs.measure_losses(benches.Options(0.01, memory=False)).items()
    step = rows[0]["ms"] * 100 / rows[0]["% of a step"]
    assert f"B=128: {step:.0f} ms" in title
    assert len(rows) == 17
    assert all(row["% of a step"] == pytest.approx(100 * row["ms"] / step) for row in rows)


@pytest.mark.slow
def test_training_loops_and_attacks_are_measured():
    speeds, ratios = steps.compare_loops(rounds=1, steps=1)
    assert set(speeds) == {"bare", "conventional", "fit", "resnet56 ce", "resnet56 opl"}
    assert ratios["fit of bare"] == pytest.approx(speeds["fit"] / speeds["bare"])
    (rows,) = steps.measure_attack(benches.Options(0.01, memory=False)).values()
    assert [row["version"] for row in rows] == ["step", "plain", "floor"]


def test_bench_measures_the_variants_of_opl(monkeypatch, capsys):
    monkeypatch.setattr(costs, "VARIANTS", [costs.Case(16, 8, 4, False)])
    (rows,) = measured(["variants", "--no-memory"], capsys)
    assert {row["loss"] for row in rows} == {
        "opl", "auto", "log-ratio", "ramp", "centered", "prototypes", "balanced",
    }  # fmt: skip
    assert cli.main(["bench", "variants", "--no-memory", "--seconds", "0.01"]) == 0
    assert "of opl" in capsys.readouterr().out
