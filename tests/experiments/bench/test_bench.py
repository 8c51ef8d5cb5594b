"""The command that measures speed and memory, and its subjects."""

import json
import os
import pkgutil
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
from opl.experiments.bench import loss as bench
from opl.experiments.bench.textbook import textbook

PACKAGE = Path(opl.__file__).parent


def test_bench_measures_all_versions_of_a_case(monkeypatch, capsys):
    monkeypatch.setattr(bench, "SPEED", [bench.Case(32, 8, 4, False), bench.Case(32, 8, 4, True)])
    monkeypatch.setattr(bench, "MEMORY", [bench.Case(2048, 16, 10, True)])
    assert cli.main(["bench", "--seconds", "0.01", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    for row in result["speed"]:
        assert set(row["ms"]) == {"textbook", "opl", "floor"}
        assert row["faster"] == pytest.approx(row["ms"]["textbook"] / row["ms"]["opl"])
    (row,) = result["memory"]
    assert row["textbook"] * row["matrix_bytes"] > 2048 * 2048 * 4  # at the very least its matrix of cosines
    assert 0 < row["opl"] < row["textbook"]


def test_the_textbook_version_is_the_loss():
    import torch

    features, labels = torch.randn(30, 7), torch.randint(0, 4, (30,))
    book = textbook(features, labels)
    torch.testing.assert_close(opl.orthogonal_projection(features, labels).loss, book)


def test_every_subject_of_bench_is_a_module_of_the_package():
    modules = [import_module(f"{benches.__name__}.{found.name}") for found in pkgutil.iter_modules(benches.__path__)]
    assert all(Path(module.__file__).is_relative_to(PACKAGE) for module in modules)
    assert set(benches.MODULES) == set(get_args(benches.Subject))
    for name in benches.MODULES.values():
        assert {"measure", "show"} <= vars(import_module(f"{benches.__name__}.{name}")).keys()


def test_bench_needs_nothing_but_the_package(tmp_path):
    """A copy of the package, far from the source tree, is all that a wheel installs."""
    shutil.copytree(PACKAGE, tmp_path / "site" / "opl", ignore=shutil.ignore_patterns("__pycache__"))
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site")}

    def run(*words: str) -> str:
        command = [sys.executable, "-P", *words]
        return subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment, check=True).stdout

    assert all(subject in run("-m", "opl", "bench", "--help") for subject in benches.MODULES)
    code = (
        "from importlib import import_module\n"
        "from opl.experiments import bench, cli\n"
        "subjects = [import_module(f'opl.experiments.bench.{name}') for name in bench.MODULES.values()]\n"
        "subjects[0].SPEED = [subjects[0].Case(32, 8, 4, True)]\n"
        "code = cli.main(['bench', '--seconds', '0.01', '--no-memory', '--json'])\n"
        "print(code, *(module.__file__ for module in subjects))"
    )
    *_, last = run("-c", code).splitlines()
    ended, *files = last.split()
    assert ended == "0"
    assert len(files) == len(benches.MODULES)
    assert all(Path(file).is_relative_to(tmp_path / "site") for file in files)


def test_bench_measures_the_variants_of_opl_beside_it(monkeypatch, capsys):
    from opl.experiments.bench import variants

    monkeypatch.setattr(variants, "CASES", [bench.Case(16, 8, 4, False)])
    assert cli.main(["bench", "variants", "--seconds", "0.01", "--no-memory", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert set(row["ms"]) == {"opl", "auto", "log-ratio", "ramp", "centered", "prototypes", "balanced"}
