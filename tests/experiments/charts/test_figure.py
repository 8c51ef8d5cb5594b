"""From runs to the files of a figure: equal bytes, no half-written file, and errors that name what is missing."""

import json
import shutil
from dataclasses import replace
from importlib import import_module

import numpy as np
import pytest
from _chart_values import DRAWN

from _runs import write_run
from _tiny_runs import write_tiny_runs
from _vouched import vouch
from opl.errors import DataError, FolderError, OptionError
from opl.experiments import paper
from opl.experiments.charts import lda, similarity
from opl.experiments.charts.figure import ARRAYS, draw_item, save
from opl.experiments.data import Mnist
from opl.experiments.evaluation.features import evaluate_novel
from opl.experiments.item import Item, Row
from opl.experiments.paper import ITEMS
from opl.experiments.results.runs import read_runs
from opl.experiments.run_folder import RunFolder
from opl.experiments.training.run import run


@pytest.mark.slow
@pytest.mark.parametrize("name", DRAWN)
def test_equal_values_give_equal_files(name, tmp_path):
    first, second = (save(DRAWN[name](), tmp_path / folder / "a.b") for folder in ("one", "two"))
    assert [path.name for path in first] == ["a.b.pdf", "a.b.png"]
    contents = [path.read_bytes() for path in first]
    assert contents == [path.read_bytes() for path in second]
    assert contents[0].startswith(b"%PDF")
    assert contents[1].startswith(b"\x89PNG")
    assert not list(tmp_path.rglob(".*"))


def test_a_figure_saved_again_is_the_same(tmp_path):
    figure = DRAWN["similarity"]()
    first, second = (save(figure, tmp_path / name) for name in ("one", "two"))
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]


def test_a_folder_that_cannot_be_written_to_is_an_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(FolderError, match="choose another folder"):
        save(DRAWN["sweeps"](), tmp_path / "file" / "figure")


def test_a_figure_that_fails_leaves_no_file_behind(tmp_path):
    figure = DRAWN["sweeps"]()

    def half(path, **_):
        path.write(b"half")
        raise MemoryError

    figure.savefig = half
    with pytest.raises(MemoryError):
        save(figure, tmp_path / "figure")
    assert not list(tmp_path.iterdir())


def test_drawing_does_not_change_the_settings_of_the_user():
    import matplotlib

    with matplotlib.rc_context({"font.size": 31, "axes.facecolor": "red"}):
        before = dict(matplotlib.rcParams)
        figure = DRAWN["sweeps"]()
        assert dict(matplotlib.rcParams) == before
    assert all(label.get_fontsize() < 20 for label in figure.axes[0].get_xticklabels())
    assert figure.axes[0].get_facecolor() == (1, 1, 1, 1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_tiny_runs(tmp_path_factory.mktemp("runs"))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["figure-3", "figure-4", "figure-s3"])
def test_a_figure_is_drawn_from_the_runs_of_its_table(folder, name):
    files, text = draw_item(paper.item(name), read_runs(folder), folder, "tiny")
    assert text
    for file in files:
        assert file.stat().st_size > 0
    assert (folder / f"{name}.txt").read_text().splitlines() == text
    assert {file.suffix for file in files} == {".pdf", ".png", ".txt"}
    assert (folder / f"{name}.png").read_bytes()[:4] == b"\x89PNG"


@pytest.mark.slow
def test_the_text_of_a_figure_has_the_values_of_the_records(folder):
    _, text = draw_item(paper.item("figure-3"), read_runs(folder), folder, "tiny")
    ends = [run.metrics()[-1]["s"] for run in (RunFolder.of(folder, "cifar100-resnet56-opl", seed) for seed in (0, 1))]
    [line] = [line for line in text if line.startswith("s, ") and "CE+OPL" in line]
    assert f"{np.mean(ends):.3f} [" in line
    _, text = draw_item(paper.item("figure-4"), read_runs(folder), folder, "tiny", "cluster")
    matrices = [RunFolder.of(folder, "cifar100-resnet56-ce", seed).outputs()["similarity"] for seed in (0, 1)]
    mean = np.mean(matrices, axis=0)
    off = np.abs(mean[~np.eye(len(mean), dtype=bool)]).mean()
    assert f"{off:.3f}" in text[0]


@pytest.mark.slow
def test_an_order_that_the_data_do_not_have_is_refused(folder, tmp_path):
    draw_item(paper.item("figure-4"), read_runs(folder), folder, "tiny", "superclass")
    copied = shutil.copytree(folder, tmp_path / "runs")
    for file in copied.glob("*/*/splits.json"):  # as in runs of other data
        file.write_text(json.dumps({**json.loads(file.read_text()), "groups": []}))
        vouch(file.parent)
    with pytest.raises(OptionError, match="records no super-classes"):
        draw_item(paper.item("figure-4"), read_runs(copied), copied, "tiny", "superclass")


def test_an_error_names_the_missing_runs_of_a_figure(tmp_path):
    with pytest.raises(FolderError, match="cifar100-resnet56-ce, cifar100-resnet56-opl"):
        draw_item(paper.item("figure-3"), read_runs(tmp_path), tmp_path, "tiny")


@pytest.mark.slow
def test_base_and_novel_classes_have_separate_panels(tmp_path):
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
    _, text = draw_item(item, read_runs(tmp_path), tmp_path, "small")
    assert [line.split(":")[0] for line in text] == [
        "CE, base classes", "OPL, base classes", "CE, novel classes", "OPL, novel classes",
    ]  # fmt: skip


def test_an_error_names_the_missing_arrays_and_how_to_write_them(tmp_path):
    path = write_run(tmp_path, "cifar100-ce", outputs=True)
    [run] = read_runs(tmp_path)
    with pytest.raises(FolderError, match=f"no readable novel.npz: write it with opl evaluate {path} novel"):
        lda.panel("CE", run, "novel")
    (path / "test.npz").write_bytes(b"broken")
    [run] = read_runs(tmp_path)
    with pytest.raises(FolderError, match=f"no readable test.npz: write it with opl evaluate {path} geometry"):
        similarity.matrix("CE", [run])


def test_every_figure_of_the_paper_is_a_module():
    names = {item.figure for item in ITEMS.values() if item.figure}
    assert all(callable(import_module(f"opl.experiments.charts.{name}").render) for name in names)
    assert names >= ARRAYS.keys()
