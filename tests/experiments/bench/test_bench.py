"""The command that measures speed and memory, and its subjects."""

import json
import os
import shutil
import subprocess
import sys
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


@pytest.mark.slow
def test_bench_needs_nothing_but_the_package(tmp_path):
    """A copy of the package, far from the source tree, is all that a wheel installs."""
    shutil.copytree(PACKAGE, tmp_path / "site" / "opl", ignore=shutil.ignore_patterns("__pycache__"))
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site")}

    def run(*arguments: str) -> str:
        command = [sys.executable, "-P", *arguments]
        return subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment, check=True).stdout

    assert all(subject in run("-m", "opl", "bench", "--help") for subject in benches.MODULES)
    code = (
        "from importlib import import_module\n"
        "from opl.experiments import bench, cli\n"
        "modules = [import_module(f'opl.experiments.bench.{name}') for name in bench.MODULES.values()]\n"
        "modules[0].SPEED = [modules[0].Case(32, 8, 4, True)]\n"
        "code = cli.main(['bench', '--seconds', '0.01', '--no-memory', '--json'])\n"
        "print(code, *(module.__file__ for module in modules))"
    )
    *_, last = run("-c", code).splitlines()
    exit_code, *files = last.split()
    assert exit_code == "0"
    assert len(files) == len(benches.MODULES)
    assert all(Path(file).is_relative_to(tmp_path / "site") for file in files)


def test_bench_measures_the_variants_of_opl(monkeypatch, capsys):
    monkeypatch.setattr(costs, "VARIANTS", [costs.Case(16, 8, 4, False)])
    (rows,) = measured(["variants", "--no-memory"], capsys)
    assert {row["loss"] for row in rows} == {
        "opl", "auto", "log-ratio", "ramp", "centered", "prototypes", "balanced",
    }  # fmt: skip
    assert cli.main(["bench", "variants", "--no-memory", "--seconds", "0.01"]) == 0
    assert "of opl" in capsys.readouterr().out
