"""Like for like: runs that would make a comparison unfair are refused or marked."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from _vouched import sha256, vouch
from opl.experiments import cli
from opl.experiments.data import UniformNoise
from opl.experiments.item import Item, Measure, Row
from opl.experiments.paper import ITEMS, item, recipe
from opl.experiments.report.page import write_report
from opl.experiments.results.comparisons import compare, lines
from opl.experiments.results.conformity import screen
from opl.experiments.results.runs import read_runs
from opl.experiments.results.tables import build_table
from opl.experiments.results.text import document
from opl.experiments.run_folder import RunFolder
from opl.experiments.settings import to_json
from opl.experiments.training.run import run

DEMO = item("demo")


@pytest.fixture(scope="module")
def honest(tmp_path_factory) -> Path:
    """Two seeds of CE and CE+OPL, as the recipes have them."""
    out = tmp_path_factory.mktemp("honest")
    for name in ("digits-ce", "digits-opl"):
        for seed in (0, 1):
            run(replace(recipe(name, "tiny"), seed=seed), out)
    return out


@pytest.fixture
def folder(honest, tmp_path) -> Path:
    """A copy where `opl reproduce demo --scale tiny --out ...` looks for it."""
    return Path(shutil.copytree(honest, tmp_path / "tiny" / "demo"))


def screened(folder: Path):
    return {run.where: run for run in screen(read_runs(folder), ITEMS.values())}


def refused(folder: Path) -> dict[str, str]:
    return {where: run.sentence for where, run in screened(folder).items() if run.state in ("refused", "damaged")}


def reproduce(folder: Path, *argv: str) -> int:
    return cli.main(["reproduce", "demo", "--scale", "tiny", "--seeds", "2", "--out", str(folder.parents[1]), *argv])


def edit(path: Path, **changes) -> None:
    content = json.loads(path.read_text())
    content.update(changes)
    path.write_text(json.dumps(content))


def text_of(folder: Path) -> str:
    """The table as Markdown with all notes."""
    runs = list(screened(folder).values())
    return document(build_table(DEMO, runs, "tiny"))


def again(folder: Path, name: str, seed: int, **settings) -> None:
    """Train a run anew with other settings, under the old name."""
    shutil.rmtree(folder / name / f"seed-{seed}")
    run(replace(recipe(name, "tiny"), seed=seed, **settings), folder)


def assert_refused(folder: Path, where: str, *phrases: str) -> None:
    result = refused(folder)
    assert where in result, result
    assert all(word in result[where] for word in phrases), result[where]
    assert phrases[0] in write_report(folder, ITEMS).read_text()


def assert_not_reproduced(folder: Path, phrase: str, capsys) -> None:
    """`opl reproduce` compares the runs with today's recipes, and stops before anything is trained."""
    capsys.readouterr()
    assert reproduce(folder) == 2
    assert phrase in capsys.readouterr().err


def test_honest_runs_are_compared(folder):
    assert refused(folder) == {}
    assert [len(line.seeds) for line in lines(DEMO, list(screened(folder).values()), "tiny")] == [2, 2]


# The three that a skeptical user tried


def test_runs_trained_by_hand_with_other_settings_are_refused(folder, capsys):
    for name, argv in (
        ("digits-ce", ["--epochs", "1", "--optimizer.lr", "0.1", "--batch-size", "128"]),
        ("digits-opl", ["--epochs", "3", "--optimizer.lr", "0.01", "--batch-size", "8"]),
    ):
        shutil.rmtree(folder / name / "seed-0")
        assert cli.main(["train", name, "--scale", "tiny", "--out", str(folder), *argv]) == 0
    result = refused(folder)
    assert "epochs 1 (recipe: 4)" in result["digits-ce/seed-0"]
    assert "batch_size 8 (recipe: 16)" in result["digits-opl/seed-0"]
    capsys.readouterr()
    assert reproduce(folder) == 2
    assert "cannot be compared: other settings" in capsys.readouterr().err


def test_a_run_with_changed_flags_is_custom_and_lists_its_changes(tmp_path, capsys):
    argv = ["train", "digits-ce", "--scale", "tiny", "--out", str(tmp_path), "--epochs", "1", "--seed", "3"]
    assert cli.main(argv) == 0
    made = RunFolder.of(tmp_path, "digits-ce", 3)
    assert made.recipe()["scale"] == made.result()["scale"] == "custom"
    assert made.result()["changes"] == ["epochs 1 (recipe: 4)"]
    page = write_report(tmp_path, ITEMS).read_text()
    assert "other settings: epochs 1 (recipe: 4)" in page


def test_a_seed_a_log_or_a_folder_of_data_change_no_recipe():
    from opl.experiments.cli.flags import change_settings

    base = recipe("mnist-ce", "small")
    argv = ["--seed", "4", "--log", "tensorboard", "--data.root", "elsewhere"]
    assert change_settings(base, argv).scale == "small"
    assert change_settings(base, [*argv, "--data.val", "7"]).scale == "custom"


# Ten more


def test_a_repeated_seed_counts_once(folder):
    shutil.rmtree(folder / "digits-opl" / "seed-1")
    shutil.copytree(folder / "digits-opl" / "seed-0", folder / "digits-opl" / "seed-1")
    assert_refused(folder, "digits-opl/seed-1", "its folder is digits-opl/seed-1, but its recipe is digits-opl/seed-0")
    assert "| CE+OPL | 1 |" in text_of(folder)


def test_a_copied_run_with_a_different_seed_is_refused_by_its_weights(folder):
    shutil.rmtree(folder / "digits-opl" / "seed-1")
    copy = Path(shutil.copytree(folder / "digits-opl" / "seed-0", folder / "digits-opl" / "seed-1"))
    content = json.loads((copy / "recipe.json").read_text())
    content["recipe"]["seed"] = 1
    (copy / "recipe.json").write_text(json.dumps(content))
    assert_refused(folder, "digits-opl/seed-1", "recipe.json is not what the run wrote")
    vouch(copy)  # now only the weights tell
    assert refused(folder)["digits-opl/seed-1"] == "the same weights as digits-opl/seed-0"


def test_another_data_split_is_not_comparable(folder, capsys):
    data = replace(recipe("digits-opl", "tiny").data, val=32)
    again(folder, "digits-opl", 0, data=data)
    assert any("data.val" in sentence for sentence in refused(folder).values())
    shutil.rmtree(folder / "digits-opl" / "seed-1")
    assert_refused(folder, "digits-opl/seed-0", "differs from its baseline in data.val", "on other images")
    assert_not_reproduced(folder, "digits-opl/seed-0 cannot be compared: differs from its baseline in data.val", capsys)


def test_other_noise_is_not_comparable(folder):
    again(folder, "digits-opl", 0, noise=UniformNoise(0.4))
    shutil.rmtree(folder / "digits-opl" / "seed-1")
    assert_refused(folder, "digits-opl/seed-0", "differs from its baseline in noise", "other wrong labels")


def test_a_half_finished_sibling_does_not_count_and_is_told(folder):
    run = folder / "digits-opl" / "seed-1"
    (run / "done").unlink()
    vouch(run, done=False)
    assert screened(folder)["digits-opl/seed-1"].state == "unfinished"
    text = text_of(folder)
    assert "| CE+OPL | 1 |" in text
    assert "seed 1 unfinished" in text


def test_an_edited_result_is_refused(folder, capsys):
    edit(folder / "digits-opl" / "seed-0" / "result.json", **{"test/top1": 99.9})
    assert_refused(folder, "digits-opl/seed-0", "result.json is not what the run wrote")
    assert_not_reproduced(folder, "result.json is not what the run wrote", capsys)
    assert "99.9" not in text_of(folder)


def test_runs_of_older_code_are_named(folder):
    path = folder / "digits-opl" / "seed-0"
    content = json.loads((path / "recipe.json").read_text())
    content["commit"], content["versions"]["torch"] = "0123456789", "2.6.0"
    (path / "recipe.json").write_text(json.dumps(content))
    vouch(path)  # as a run of that code would be
    text = text_of(folder)
    assert "runs of different code are compared" in text
    assert "commit 0123456789, torch 2.6.0 (1 run)" in text


def test_another_scale_copied_in_is_in_no_row(folder):
    shutil.rmtree(folder / "digits-opl" / "seed-0")
    run(replace(recipe("digits-opl", "tiny"), scale="small"), folder)
    assert "| CE+OPL | 1 |" in text_of(folder)


def test_a_seed_without_its_baseline_is_reported_and_not_compared(folder):
    shutil.rmtree(folder / "digits-ce" / "seed-1")
    _, opl = lines(DEMO, list(screened(folder).values()), "tiny")
    assert opl.difference["test/top1"].size == 1
    assert "seed 1 without its baseline" in text_of(folder)


def test_another_selection_is_refused(folder, capsys):
    for seed in (0, 1):
        again(folder, "digits-opl", seed, selection="best-val")
    assert_refused(folder, "digits-opl/seed-1", "differs from its baseline in selection")
    for seed in (0, 1):
        again(folder, "digits-ce", seed, selection="best-val")
    assert refused(folder) == {}  # all four runs are alike, but not like their recipes
    assert_not_reproduced(folder, "other settings: selection best-val (recipe: last)", capsys)


def test_another_augmentation_is_refused(tmp_path):
    ce, opl = (recipe(f"cifar100-search-{name}", "small") for name in ("ce", "opl"))
    for made in (ce, replace(opl, data=replace(opl.data, jitter=0.4))):
        folder = RunFolder.of(tmp_path, made.name, 0)
        folder.start(to_json(made), {})
        folder.finish({"x": torch.zeros(1)}, {"test/top1": 50.0})
    assert_refused(tmp_path, "cifar100-search-opl/seed-0", "differs from its baseline in data.jitter")


# Measures


def test_a_measure_with_other_settings_is_no_number_of_the_table(folder):
    wanted = {"kind": "Attack", "images": 200, "seed": 0}
    table = Item(
        "x", "x", "x", {"attack/pgd": "PGD %"}, (Row("CE", "digits-ce", {}),),
        measures=(Measure(("attack",), ("attack-pgd",), settings=(wanted,)),),
    )  # fmt: skip
    for seed, images in ((0, 200), (1, 1)):
        content = {"numbers": {"attack/pgd": 40.0 + seed}, "settings": {**wanted, "images": images}}
        RunFolder.of(folder, "digits-ce", seed).write_measure("attack-pgd", content, {})
    [line] = lines(table, list(screened(folder).values()), "tiny")
    assert line.seeds == (0,)
    assert "seed 1: attack-pgd was measured with images 1 (table: 200)" in line.missing


def test_images_are_not_compared_one_by_one_where_a_measure_had_other_settings(folder):
    wanted = {"kind": "Attack", "images": 4}
    table = Item(
        "x", "x", "x", {"attack/pgd": "PGD %"},
        (Row("CE", "digits-ce", {}), Row("CE+OPL", "digits-opl", {}, "digits-ce")),
        measures=(Measure(("attack",), ("attack-pgd",), settings=(wanted,)),),
    )  # fmt: skip
    for name in ("digits-ce", "digits-opl"):
        for seed, images in ((0, 4), (1, 1)):
            content = {"numbers": {"attack/pgd": 50.0}, "settings": {**wanted, "images": images}}
            arrays = {"each": np.array([0.0, 100.0, 0.0, 100.0])}
            RunFolder.of(folder, name, seed).write_measure("attack-pgd", content, arrays)
    [comparison] = compare(table, list(screened(folder).values()), "tiny")
    assert comparison.seeds == (0,)


def test_tables_4_and_6_ask_for_their_measures_settings():
    for name in ("table-4", "table-6", "table-s3"):
        for measure in item(name).measures:
            assert len(measure.settings) == len(measure.names) > 0


def rewrite(path: Path, change) -> None:
    """Change the settings of a finished run, as if it had been trained with them."""
    about = json.loads((path / "recipe.json").read_text())
    change(about["recipe"])
    (path / "recipe.json").write_text(json.dumps(about))
    vouch(path)


def test_a_setting_that_only_one_version_of_the_code_has_is_not_compared(folder):
    rewrite(folder / "digits-opl" / "seed-0", lambda settings: settings["method"].pop("label_smoothing"))
    rewrite(folder / "digits-ce" / "seed-0", lambda settings: settings.update(new_setting=True))
    assert refused(folder) == {}
    rewrite(folder / "digits-opl" / "seed-0", lambda settings: settings["method"].update(weight=0.5))
    [sentence] = refused(folder).values()
    assert "other settings than digits-opl/seed-" in sentence
    assert "method.weight" in sentence


# Teachers


def write_student(out: Path, seed: int, after: dict, started: str = "") -> None:
    student = replace(recipe("cifar-fs-rfs-distilled", "tiny"), seed=seed)
    folder = RunFolder.of(out, student.name, seed)
    folder.start(to_json(student), {"started": started})
    folder.finish({"x": torch.full((1,), float(seed))}, {"test/top1": 50.0, **after})


def test_a_student_of_another_teacher_is_refused(tmp_path, capsys):
    out, teacher = tmp_path / "tiny" / "table-6", recipe("cifar-fs-rfs", "tiny")
    where = "cifar-fs-rfs-distilled/seed-0"

    def taught_by(changes: dict, seed: int = 0, started: str = "") -> None:
        made = replace(teacher, **{"seed": seed, **changes})
        write_student(out, seed, {"after": {"recipe": to_json(made), "sha256": "ab"}}, started)

    write_student(out, 0, {})
    assert refused(out) == {}
    shutil.rmtree(out)
    taught_by({"seed": 3})
    assert refused(out) == {where: "it came after cifar-fs-rfs with seed 3"}
    shutil.rmtree(out)
    taught_by({"scale": "custom", "changes": ("epochs 1 (recipe: 3)",)})
    assert refused(out) == {where: "it came after cifar-fs-rfs with other settings: epochs 1 (recipe: 3)"}
    shutil.rmtree(out)
    taught_by({"epochs": 1}, started="2026-11-01")
    assert refused(out) == {}  # nothing that is stored speaks against it
    assert cli.main(["reproduce", "table-6", "--scale", "tiny", "--out", str(tmp_path)]) == 2
    assert "it came after cifar-fs-rfs with other settings: epochs 1 (recipe: 3)" in capsys.readouterr().err
    taught_by({}, seed=1, started="2026-11-02")
    sentence = "other settings than cifar-fs-rfs-distilled/seed-1: after.epochs 1 (there: 3)"
    assert refused(out) == {where: sentence}


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


# Settings from a file


def test_a_recipe_file_with_other_settings_is_custom(tmp_path, capsys):
    file = tmp_path / "recipe.json"
    file.write_text(json.dumps(to_json(replace(recipe("digits-ce", "tiny"), epochs=1))))
    assert cli.main(["train", "--recipe", str(file), "--out", str(tmp_path / "runs")]) == 0
    made = RunFolder.of(tmp_path / "runs", "digits-ce", 0).recipe()
    assert (made["scale"], made["changes"]) == ("custom", ["epochs 1 (recipe: 4)"])
