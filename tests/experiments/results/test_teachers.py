"""A run that starts from another one, or learns from it, names it: with another teacher it is in no table."""

import shutil
from dataclasses import replace

import pytest
import torch

from _vouched import sha256
from opl.experiments import cli
from opl.experiments.paper import ITEMS, RECIPES, recipe
from opl.experiments.results.conformity import screen
from opl.experiments.results.runs import read_runs
from opl.experiments.run_folder import RunFolder
from opl.experiments.settings import to_json
from opl.experiments.training.run import run


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"epochs": 1}, "with other settings: epochs 1 (recipe: "),
        ({"seed": 3}, "it came after cifar-fs-rfs with seed 3"),
    ],
)
def test_a_student_of_another_teacher_is_refused(tmp_path, capsys, changes, sentence):
    teacher, student = recipe("cifar-fs-rfs", "tiny"), recipe("cifar-fs-rfs-distilled", "tiny")
    out = tmp_path / "tiny" / "table-6"
    for result in ({"after": {"recipe": to_json(replace(teacher, **changes)), "sha256": "ab"}}, {}):
        folder = RunFolder.of(out, student.name, 0)
        shutil.rmtree(folder.path, ignore_errors=True)
        folder.start(to_json(student), {})
        folder.finish({"x": torch.zeros(1)}, {"test/top1": 50.0, **result})
        run_of = {each.where: each for each in screen(read_runs(out), ITEMS.values(), RECIPES)}
        found = run_of["cifar-fs-rfs-distilled/seed-0"]
        assert (found.state == "refused") == bool(result)
        if result:
            assert sentence in found.sentence
            assert cli.main(["reproduce", "table-6", "--scale", "tiny", "--out", str(tmp_path)]) == 2
            assert sentence in capsys.readouterr().err


def test_a_teacher_with_other_settings_is_refused_before_its_student_is_trained(tmp_path, capsys):
    name = recipe("cifar100-robust-hendrycks", "tiny").after
    made = replace(recipe(name, "tiny"), epochs=7)
    folder = RunFolder.of(tmp_path / "tiny" / "table-4", name, 0)
    folder.start(to_json(made), {})
    folder.finish({"x": torch.zeros(1)}, {"test/top1": 50.0})
    assert cli.main(["reproduce", "table-4", "--scale", "tiny", "--out", str(tmp_path)]) == 2
    assert "cannot be compared: other settings: epochs 7" in capsys.readouterr().err


def test_a_student_names_the_weights_and_settings_of_its_teacher(tmp_path):
    teacher, student = recipe("cifar-fs-rfs", "tiny"), recipe("cifar-fs-rfs-distilled", "tiny")
    run(teacher, tmp_path)
    result = run(student, tmp_path)
    weights = RunFolder.of(tmp_path, teacher.name, 0).path / "model.safetensors"
    assert result["after"]["sha256"] == sha256(weights)
    assert result["after"]["recipe"]["name"] == "cifar-fs-rfs"
