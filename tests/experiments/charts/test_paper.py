"""From runs to figures: drawing every figure of the paper, and what a figure lacks."""

import json
import shutil
from dataclasses import replace
from importlib import import_module

import numpy as np
import pytest

from _runs import write_run
from _tiny_runs import write_tiny_runs
from _vouched import vouch
from opl.errors import DataError, FolderError, OptionError
from opl.experiments import paper
from opl.experiments.charts import lda, similarity
from opl.experiments.charts.paper import draw
from opl.experiments.data.mnist import Mnist
from opl.experiments.evaluation.features import evaluate_novel
from opl.experiments.item import Item, Row
from opl.experiments.paper import ITEMS
from opl.experiments.results.runs import read_runs
from opl.experiments.run_folder import RunFolder
from opl.experiments.training.run import run


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_tiny_runs(tmp_path_factory.mktemp("runs"))


@pytest.mark.parametrize("name", ["figure-3", "figure-4", "figure-s3"])
def test_a_figure_is_drawn_from_the_runs_of_its_table(folder, name):
    files, words = draw(paper.item(name), read_runs(folder), folder, "tiny")
    assert words
    for file in files:
        assert file.stat().st_size > 0
    assert (folder / f"{name}.txt").read_text().splitlines() == words
    assert {file.suffix for file in files} == {".pdf", ".png", ".txt"}
    assert (folder / f"{name}.png").read_bytes()[:4] == b"\x89PNG"


def test_the_words_of_a_figure_are_those_of_the_records(folder):
    _, words = draw(paper.item("figure-3"), read_runs(folder), folder, "tiny")
    ends = [run.metrics()[-1]["s"] for run in (RunFolder.of(folder, "cifar100-resnet56-opl", seed) for seed in (0, 1))]
    [said] = [line for line in words if line.startswith("s, ") and "CE+OPL" in line]
    assert f"{np.mean(ends):.3f} [" in said
    _, words = draw(paper.item("figure-4"), read_runs(folder), folder, "tiny", "cluster")
    matrices = [RunFolder.of(folder, "cifar100-resnet56-ce", seed).outputs()["similarity"] for seed in (0, 1)]
    mean = np.mean(matrices, axis=0)
    off = np.abs(mean[~np.eye(len(mean), dtype=bool)]).mean()
    assert f"{off:.3f}" in words[0]


def test_an_order_that_the_data_do_not_have_is_refused(folder, tmp_path):
    draw(paper.item("figure-4"), read_runs(folder), folder, "tiny", "superclass")
    copied = shutil.copytree(folder, tmp_path / "runs")
    for file in copied.glob("*/*/splits.json"):  # as the runs of an older version, or of other data
        file.write_text(json.dumps({**json.loads(file.read_text()), "groups": []}))
        vouch(file.parent)
    with pytest.raises(OptionError, match="no super-classes"):
        draw(paper.item("figure-4"), read_runs(copied), copied, "tiny", "superclass")


def test_a_figure_without_its_runs_says_which(tmp_path):
    with pytest.raises(FolderError, match="cifar100-resnet56-ce, cifar100-resnet56-opl"):
        draw(paper.item("figure-3"), read_runs(tmp_path), tmp_path, "tiny")


def test_base_and_novel_classes_are_drawn_apart(tmp_path):
    try:
        data = Mnist(classes=4, val=0, per_class=40, test_per_class=20)
        data.load(0)
    except DataError:
        pytest.skip("MNIST is not here: set OPL_DATA")
    recipe = replace(paper.recipe("mnist-ce", "paper"), data=data, epochs=1, scale="small")
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


def test_a_figure_says_which_arrays_it_lacks_and_how_to_get_them(tmp_path):
    path = write_run(tmp_path, "cifar100-ce", outputs=True)
    [run] = read_runs(tmp_path)
    with pytest.raises(FolderError, match=f"no readable novel.npz: write it with opl evaluate {path} novel"):
        lda.panel("CE", run, "novel")
    (path / "test.npz").write_bytes(b"broken")
    [run] = read_runs(tmp_path)
    with pytest.raises(FolderError, match=f"no readable test.npz: write it with opl evaluate {path} geometry"):
        similarity.matrix("CE", [run])


@pytest.mark.parametrize("name", sorted({item.figure for item in ITEMS.values() if item.figure}))
def test_every_figure_of_the_paper_is_a_module(name):
    module = import_module(f"opl.experiments.charts.{name}")
    assert callable(module.render)
    assert set(module.NEEDS) <= {"test", "novel"}
