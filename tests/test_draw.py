"""From runs to figures: what a run keeps for them, measuring it again, and drawing every figure of the paper."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch

from opl.errors import DataError, FolderError, OptionError
from opl.experiments import cli, tables
from opl.experiments.data.cifar import Cifar100
from opl.experiments.data.mnist import Mnist
from opl.experiments.evaluation.predict import evaluate_novel
from opl.experiments.figures.paper import draw
from opl.experiments.figures.search import sweeps as sweeps_of
from opl.experiments.item import Item, Row
from opl.experiments.results.runs import read_runs, select_runs
from opl.experiments.run_folder import RunFolder
from opl.experiments.training.build import build_model
from opl.experiments.training.run import run

TINY = {name: tables.recipe(f"cifar100-resnet56-{name}", "tiny") for name in ("ce", "opl")}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two rows, two seeds, of synthetic pictures."""
    out = tmp_path_factory.mktemp("runs") / "tiny" / "table-1"
    for recipe in TINY.values():
        for seed in (0, 1):
            run(replace(recipe, seed=seed), out)
    return out


def test_a_run_keeps_what_its_model_says_of_the_test_images(folder):
    found = RunFolder.of(folder, "cifar100-resnet56-opl", 1)
    arrays = found.outputs()
    recipe = replace(TINY["opl"], seed=1)
    model = build_model(recipe)
    model.load_state_dict(found.weights())
    test = recipe.data.load(1).test
    pixels, labels = test.take(torch.arange(len(test)))
    mean, std = (torch.tensor(values)[:, None, None] for values in (recipe.data.mean, recipe.data.std))
    with torch.no_grad():
        features, logits = model.eval()((pixels.float() / 255 - mean) / std)
    assert (arrays["labels"] == labels.numpy()).all()
    p = torch.softmax(logits, 1).numpy()
    assert (arrays["top5"][:, 0] == p.argmax(1)).mean() > 0.99  # a tie may fall either way
    np.testing.assert_allclose(arrays["p5"][:, 0], p.max(1), atol=2e-3)
    assert (np.diff(arrays["p5"].astype(float), axis=1) <= 0).all()
    np.testing.assert_allclose(arrays["features"], features.numpy(), atol=2e-3, rtol=2e-3)
    shown = arrays["pixels"]
    assert (shown == pixels[: len(shown)].permute(0, 2, 3, 1).numpy()).all()
    means = np.stack([features.numpy()[labels == each].mean(0) for each in labels.unique()])
    units = means / np.linalg.norm(means, axis=1, keepdims=True)
    there = labels.unique().numpy()
    np.testing.assert_allclose(arrays["similarity"][np.ix_(there, there)], units @ units.T, atol=1e-4)


def test_measuring_again_writes_the_same(folder, capfd):
    found = RunFolder.of(folder, "cifar100-resnet56-ce", 0)
    before = found.outputs()
    (found.path / "test.npz").write_bytes(b"broken")
    assert found.outputs() is None
    assert cli.main(["evaluate", str(found.path), "geometry"]) == 0
    numbers = json.loads(capfd.readouterr().out)
    assert numbers["images"] == len(before["labels"])
    after = found.outputs()
    for name, value in before.items():
        np.testing.assert_allclose(after[name].astype(float), value.astype(float), atol=2e-3)


def test_what_cannot_be_measured_is_one_sentence(folder, tmp_path, capfd):
    assert cli.main(["evaluate", str(tmp_path / "nowhere"), "geometry"]) == 2
    assert "no finished run" in capfd.readouterr().err
    assert cli.main(["evaluate", str(folder / "cifar100-resnet56-ce" / "seed-0"), "novel"]) == 2
    assert "novel classes" in capfd.readouterr().err
    assert cli.main(["evaluate", str(folder), "horoscope"]) == 2
    assert "protocol 'horoscope' does not exist" in capfd.readouterr().err
    with pytest.raises(SystemExit):
        cli.main(["evaluate", str(folder), "geometry", "--nonsense"])
    capfd.readouterr()
    with pytest.raises(OptionError, match="none is new"):
        Cifar100().novel_classes()
    with pytest.raises(OptionError, match="not 'val'"):
        Cifar100(classes=20).novel_classes("val")


@pytest.mark.parametrize("name", ["figure-3", "figure-4", "figure-5", "figure-s3"])
def test_a_figure_is_drawn_from_the_runs_of_its_table(folder, name):
    files, words = draw(tables.item(name), read_runs(folder), folder, "tiny")
    assert words
    for file in files:
        assert file.stat().st_size > 0
    assert (folder / f"{name}.txt").read_text().splitlines() == words
    if name != "figure-5":  # a tiny run may mend nothing
        assert {file.suffix for file in files} == {".pdf", ".png", ".txt"}
        assert (folder / f"{name}.png").read_bytes()[:4] == b"\x89PNG"


def test_the_words_of_a_figure_are_those_of_the_records(folder):
    _, words = draw(tables.item("figure-3"), read_runs(folder), folder, "tiny")
    ends = [run.metrics()[-1]["s"] for run in (RunFolder.of(folder, "cifar100-resnet56-opl", seed) for seed in (0, 1))]
    [said] = [line for line in words if line.startswith("s, ") and "CE+OPL" in line]
    assert f"{np.mean(ends):.3f} [" in said
    _, words = draw(tables.item("figure-4"), read_runs(folder), folder, "tiny", "cluster")
    matrices = [RunFolder.of(folder, "cifar100-resnet56-ce", seed).outputs()["similarity"] for seed in (0, 1)]
    mean = np.mean(matrices, axis=0)
    off = np.abs(mean[~np.eye(len(mean), dtype=bool)]).mean()
    assert f"{off:.3f}" in words[0]


def test_an_order_that_the_data_do_not_have_is_refused(folder, tmp_path):
    draw(tables.item("figure-4"), read_runs(folder), folder, "tiny", "superclass")
    copied = shutil.copytree(folder, tmp_path / "runs")
    for file in copied.glob("*/*/splits.json"):  # as the runs of an older version, or of other data
        file.write_text(json.dumps({**json.loads(file.read_text()), "groups": []}))
    with pytest.raises(OptionError, match="no super-classes"):
        draw(tables.item("figure-4"), read_runs(copied), copied, "tiny", "superclass")


def test_a_figure_without_its_runs_says_which(tmp_path):
    with pytest.raises(FolderError, match="cifar100-resnet56-ce, cifar100-resnet56-opl"):
        draw(tables.item("figure-3"), read_runs(tmp_path), tmp_path, "tiny")


def test_reproduce_draws_features_in_the_plane(tmp_path, capfd):
    words = ["reproduce", "figure-2", "--scale", "tiny", "--out", str(tmp_path), "--jobs", "2"]
    assert cli.main(words) == 0
    out = capfd.readouterr().out
    assert "mean angle between class directions" in out
    assert (tmp_path / "tiny" / "figure-2" / "figure-2.pdf").stat().st_size > 0


def test_a_scale_without_runs_is_refused(tmp_path, capfd, monkeypatch):
    monkeypatch.setitem(tables.ITEMS, "demo", replace(tables.ITEMS["demo"], rows=()))
    assert cli.main(["reproduce", "demo", "--scale", "tiny", "--out", str(tmp_path)]) == 2
    assert "no runs at scale tiny" in capfd.readouterr().err


def test_sweeps_are_read_off_the_recipes_of_finished_runs(tmp_path):
    opl = tables.recipe("digits-opl", "tiny")
    settings = {"a": {}, "b": {"batch_size": 32}, "c": {"method": replace(opl.method, weight=0.1)}}
    for name, changes in settings.items():
        run(replace(opl, name=name, **{"batch_size": 128, **changes}), tmp_path)
    run(replace(tables.recipe("digits-ce", "tiny"), batch_size=128), tmp_path)
    read = read_runs(tmp_path)
    runs = [run for name in (*settings, "digits-ce") for run in select_runs(read, name, "tiny")]
    sweeps = sweeps_of(runs)
    [weights] = sweeps["weight"]
    assert weights.xs == (0.1, 1.0)
    assert weights.baseline == (runs[-1].result["test/top1"],)
    assert {each.label: each.xs for each in sweeps["batch size"]} == {"CE": (128,), "CE+OPL": (32, 128)}
    item = Item(
        "x", "x", "digits", {}, tuple(Row(name, name, {}) for name in (*settings, "digits-ce")), figure="search"
    )
    files, _ = draw(item, read, tmp_path, "tiny")
    assert len(files) == 3


def test_base_and_novel_classes_are_drawn_apart(tmp_path):
    try:
        data = Mnist(classes=4, val=0, per_class=40, test_per_class=20)
        data.load(0)
    except DataError:
        pytest.skip("MNIST is not here: set OPL_DATA")
    recipe = replace(tables.recipe("mnist-ce", "paper"), data=data, epochs=1, scale="small")
    for name in ("one", "two"):
        run(replace(recipe, name=name), tmp_path)
        evaluate_novel(RunFolder.of(tmp_path, name, 0))
    arrays = RunFolder.of(tmp_path, "one", 0).outputs("novel")
    assert list(arrays["class_names"]) == ["4", "5", "6", "7"]
    assert set(arrays["labels"].tolist()) == {0, 1, 2, 3}
    item = Item("x", "x", "mnist", {}, (Row("CE", "one", {}), Row("OPL", "two", {})), figure="lda")
    _, words = draw(item, read_runs(tmp_path), tmp_path, "small")
    assert [line.split(":")[0] for line in words] == [
        "CE, base classes", "OPL, base classes", "CE, novel classes", "OPL, novel classes",
    ]  # fmt: skip


def test_super_classes_are_those_of_the_data_set():
    try:
        splits = Cifar100(classes=20).load(0)
    except DataError:
        pytest.skip("CIFAR-100 is not here: set OPL_DATA")
    groups = dict(zip(splits.class_names, splits.groups, strict=True))
    assert groups["aquarium_fish"] != groups["apple"]
    assert groups["baby"] == groups["boy"]
    assert groups["bee"] == groups["beetle"] == groups["butterfly"] == groups["caterpillar"]
    assert groups["bottle"] == groups["bowl"] == groups["can"]
