"""Ray, submitit and Optuna are imported by their own files alone, and only when they are used."""

import ast
import sys
from pathlib import Path

import pytest

from _python import python
from _said import says
from opl.errors import OplError
from opl.experiments import runner
from opl.experiments.runner.ray_tasks import RayCluster
from opl.experiments.runner.shared_folder import Machine, Versions, look, refuse_blind, token_in
from opl.experiments.runner.slurm import Queue, Slurm

SOURCE = Path(runner.__file__).parents[2]
OWNERS = {"ray": "ray_tasks", "submitit": "slurm", "optuna": "optuna_sampler"}


@pytest.mark.parametrize("engine", OWNERS)
def test_only_its_own_file_imports_an_engine_and_there_only_inside_functions(engine):
    for file in SOURCE.rglob("*.py"):
        tree = ast.parse(file.read_text())
        imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
        names = [
            (node, name.split(".")[0])
            for node in imports
            for name in (
                [node.module or ""] if isinstance(node, ast.ImportFrom) else [each.name for each in node.names]
            )
            if not (isinstance(node, ast.ImportFrom) and node.level)
        ]
        found = [node for node, name in names if name == engine]
        assert not found or file.stem == OWNERS[engine], file
        assert not [node for node in found if node in tree.body], file


def test_the_commands_and_the_local_backend_load_no_engine():
    code = """
import sys, tempfile
from pathlib import Path
from opl.experiments.cli import reproduce, search, evaluate, train
from opl.experiments.runner import ray_tasks, slurm
from opl.experiments.runner.placement import Placement
with Placement().executor(Path(tempfile.mkdtemp()), False) as executor:
    list(executor.watch())
print(*({"ray", "submitit", "optuna"} & set(sys.modules)))
"""
    assert python(code).strip() == ""


@pytest.mark.parametrize(("engine", "build"), [("ray", RayCluster), ("submitit", lambda path: Slurm(path, Queue()))])
def test_an_engine_that_is_not_installed_is_named_with_its_extra(engine, build, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, engine, None)
    extra = "ray" if engine == "ray" else "slurm"
    says(build(tmp_path).__enter__, OplError, ["not installed", f"[{extra}]"])


def test_a_machine_that_does_not_see_the_folder_is_named(tmp_path):
    with token_in(tmp_path) as (file, token):
        here = look(str(file))
        assert here.token == token
        refuse_blind([here], token, tmp_path)
        blind = look(str(tmp_path / "elsewhere"))._replace(host="node-7")
        says(lambda: refuse_blind([here, blind], token, tmp_path), OplError, [str(tmp_path), "node-7", "--out"])
    assert list(tmp_path.iterdir()) == []


def test_versions_that_differ_are_said_once_of_each_machine(capsys):
    compare = Versions()
    compare.compare(Machine("same", "", compare.here))
    for _ in range(2):
        compare.compare(Machine("other", "", compare.here | {"torch": "1.0"}))
    said = capsys.readouterr().err
    assert said.count("other has other versions") == 1
    assert "torch 1.0 (here: " in said
    assert "same" not in said
