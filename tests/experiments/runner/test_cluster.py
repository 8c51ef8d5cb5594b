"""Cluster backends: imports only when used, machines that do not see the folder, and other versions."""

import ast
import sys
from pathlib import Path

import pytest

from _python import python
from _said import says
from opl.errors import OplError
from opl.experiments import runner
from opl.experiments.runner.cluster import check_machines, describe_machine
from opl.experiments.runner.ray_executor import RayCluster
from opl.experiments.runner.slurm import Slurm

SOURCE = Path(runner.__file__).parents[2]
OWNERS = {"ray": "ray_executor", "submitit": "slurm", "optuna": "samplers"}


def imported_packages(tree: ast.Module) -> list[tuple[ast.stmt, str]]:
    """The packages that a module imports, with the statements that do so."""
    packages = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            packages += [(node, alias.name.split(".")[0]) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            packages.append((node, str(node.module).split(".")[0]))
    return packages


@pytest.mark.parametrize("engine", OWNERS)
def test_an_engine_is_imported_in_one_module_and_only_inside_functions(engine):
    for file in SOURCE.rglob("*.py"):
        tree = ast.parse(file.read_text())
        imports = [node for node, package in imported_packages(tree) if package == engine]
        assert not imports or file.stem == OWNERS[engine], file
        assert not [node for node in imports if node in tree.body], file


def test_the_commands_and_the_local_backend_load_no_engine():
    code = """
import sys, tempfile
from pathlib import Path
from opl.experiments.cli import reproduce, search, evaluate, train
from opl.experiments.runner import ray_executor, slurm
from opl.experiments.runner.placement import Placement
with Placement().executor(Path(tempfile.mkdtemp()), False) as executor:
    list(executor.watch())
print(*({"ray", "submitit", "optuna"} & set(sys.modules)))
"""
    assert python(code).strip() == ""


@pytest.mark.parametrize(("engine", "build"), [("ray", RayCluster), ("submitit", Slurm)])
def test_an_engine_that_is_not_installed_is_named_with_its_extra(engine, build, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, engine, None)
    extra = "ray" if engine == "ray" else "slurm"
    says(build(tmp_path).__enter__, OplError, ["not installed", f"[{extra}]"])


def test_a_machine_that_does_not_see_the_folder_is_named(tmp_path):
    check_machines(tmp_path, lambda file: [describe_machine(file)])

    def describe(file):
        return [describe_machine(file), describe_machine(str(tmp_path / "elsewhere"))._replace(host="node-7")]

    says(lambda: check_machines(tmp_path, describe), OplError, [str(tmp_path), "node-7", "--out"])
    assert list(tmp_path.iterdir()) == []


def test_other_versions_are_printed_once_per_machine(tmp_path, capsys):
    def describe(file):
        same = describe_machine(file)._replace(host="same")
        return [same, *[same._replace(host="other", versions=same.versions | {"torch": "1.0"})] * 2]

    check_machines(tmp_path, describe)
    printed = capsys.readouterr().err
    assert printed.count("other has other versions") == 1
    assert "torch 1.0 (here: " in printed
    assert "same" not in printed
