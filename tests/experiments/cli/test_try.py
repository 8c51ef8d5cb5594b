"""`opl try` from the images to the page, resumed and interrupted."""

import json
import shutil

import pytest

from _image_files import encoded
from _inline import inlined
from _shapes import draw, shape_folder
from opl.experiments import cli
from opl.experiments.tryout import speed, trial
from opl.experiments.tryout.verdict import read_items

FAST = ("--network", "resnet-10-w16", "--size", "8", "--epochs", "2", "--gamma", "5", "--jobs", "1", "--minutes", "5")


def try_images(monkeypatch, argv, stop_after=1000):
    """Run `opl try` in this process, interrupted after so many runs; returns its exit code and the runs."""
    with inlined(monkeypatch, stop_after, speed.main) as executor, monkeypatch.context() as patch:
        patch.setattr(trial, "LONGEST_MEASURING", 0.05)
        return cli.main(["try", *map(str, argv)]), executor.executed


@pytest.fixture(scope="module", autouse=True)
def _cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPL_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def tried(tmp_path_factory):
    """The folder of a whole `opl try`, what it printed, and the images; it was interrupted after the first seed."""
    folder = tmp_path_factory.mktemp("try")
    shape_folder(folder / "shapes", {"circle": 30, "square": 9})
    (folder / "shapes/circle/broken.png").write_text("no image")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        argv = ("shapes", *FAST, "--seeds", "2", "--out", "runs")
        first = try_images(patch, argv, stop_after=3)
        second = try_images(patch, argv)
    return folder, first, second


def test_an_interrupted_try_keeps_finished_seeds_and_resumes(tried):
    _, first, second = tried
    assert first == (130, ["try-shapes-ce seed 0", "try-shapes-opl seed 0", "try-shapes-ce seed 1"])
    assert second == (0, ["try-shapes-opl seed 1"])


def test_the_table_has_both_methods_with_both_seeds_and_the_balanced_accuracy(tried):
    table = json.loads((tried[0] / "runs/try/shapes/table.json").read_text())
    assert [(row["label"], row["seeds"]) for row in table["rows"]] == [("CE", [0, 1]), ("CE+OPL", [0, 1])]
    assert "test/balanced" in table["rows"][1]["difference"]
    assert table["scale"] == "try"
    for text in ("9 (square) to 30 (circle)", "predicting circle: 76.9 %", "1 unreadable image (circle/broken.png)"):
        assert text in table["note"]
    assert (tried[0] / "runs/try/shapes/left-out.txt").read_text().startswith("circle/broken.png: ")


def test_the_page_names_the_comparison_and_the_command(tried):
    page = (tried[0] / "runs/try/shapes/report.html").read_text()
    for text in (
        "CE vs CE+OPL on your images",
        "opl try shapes --out runs --minutes 5",
        "scale try",
        "<h3>Results</h3>",
    ):
        assert text in page
    assert "Paper and ours" not in page
    above_copy = page[: page.index('<pre id="copy-')]  # two seeds: each is listed, without an interval
    assert "two seeds are too few for an interval" in above_copy
    assert "±" not in above_copy[above_copy.index("<main") :].replace("±0.5", "").replace("±0.01", "")
    assert "95 % interval]" not in above_copy
    assert " shown)" in page


def test_report_and_check_know_the_folder(tried, tmp_path, capsys):
    copy = shutil.copytree(tried[0] / "runs", tmp_path / "runs")
    (copy / "try/shapes/report.html").unlink()
    assert cli.main(["report", str(copy)]) == 0
    assert "CE vs CE+OPL on your images" in (copy / "report.html").read_text()
    assert cli.main(["check", str(copy)]) == 0
    assert "4 runs checked, all files intact" in capsys.readouterr().out
    assert [*read_items(copy)] == ["try-shapes"]


def test_a_finished_try_trains_nothing_and_more_seeds_are_added(tried, monkeypatch, capsys):
    monkeypatch.chdir(tried[0])
    assert try_images(monkeypatch, ("shapes", "--out", "runs", "--jobs", "1")) == (0, [])
    box = " ".join(capsys.readouterr().out.rpartition("(arrow: better)")[2].split())
    for text in (
        "two seeds: too few to be sure",
        " % with CE+OPL, ",
        "d ",
        "s ",
        "Next: ",
        "opl try shapes --out runs",
    ):
        assert text in box
    assert "±" not in box
    code, runs = try_images(monkeypatch, ("shapes", "--out", "runs", "--jobs", "1", "--seeds", "3", "--json"))
    assert (code, runs) == (0, ["try-shapes-ce seed 2", "try-shapes-opl seed 2"])
    assert [row["seeds"] for row in _last_json(capsys.readouterr().out)["rows"]] == [[0, 1, 2], [0, 1, 2]]


def _last_json(text):
    """The last JSON object of what was printed: the runs print theirs before it."""
    return json.loads("{" + text.rpartition("\n{")[2])


def test_another_gamma_has_its_own_folder_and_is_compared_with_the_first(tried, tmp_path, monkeypatch, capsys):
    shutil.copytree(tried[0] / "runs", tmp_path / "runs")
    monkeypatch.chdir(tried[0])
    argv = ("shapes", "--out", tmp_path / "runs", "--jobs", "1", "--gamma", "2")
    name = "try-shapes-opl-weight-1-gamma-2"
    before = sorted((tmp_path / "runs/try/shapes").glob("try-shapes-*/seed-*"))
    assert try_images(monkeypatch, argv) == (0, [f"{name} seed {seed}" for seed in before_seeds(before)])
    box = " ".join(capsys.readouterr().out.rpartition("(arrow: better)")[2].split())
    assert "Compared with the first CE+OPL (weight 1, gamma 5) on the same seeds: accuracy " in box
    home = tmp_path / "runs/try/shapes"
    assert (home / f"weight-1-gamma-2/{name}/seed-0/done").exists()
    assert sorted(home.glob("try-shapes-*/seed-*")) == before
    labels = [row["label"] for row in json.loads((home / "table.json").read_text())["rows"]]
    assert labels == ["CE", "CE+OPL (weight 1, gamma 5)", "CE+OPL (weight 1, gamma 2)"]
    page = (home / "report.html").read_text()
    assert "CE+OPL (weight 1, gamma 2)" in page
    assert "Next: " in page
    assert try_images(monkeypatch, argv) == (0, [])
    opl = json.loads((home / f"weight-1-gamma-2/{name}/seed-0/recipe.json").read_text())["recipe"]["method"]
    assert opl["gamma"] == 2
    capsys.readouterr()
    for more, label in (("--gamma", "1"), "gamma 1"), ((), "gamma 5"):  # the verdict is about the try of the command
        assert try_images(monkeypatch, (*argv[:-2], *more))[0] == 0
        box = " ".join(capsys.readouterr().out.rpartition("(arrow: better)")[2].split())
        assert f" % with CE+OPL (weight 1, {label}), " in box
        assert ("Compared with the first" in box) == bool(more)


def before_seeds(folders):
    return sorted({int(folder.name.removeprefix("seed-")) for folder in folders})


def test_other_settings_and_other_images_are_refused(tried, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tried[0])
    assert try_images(monkeypatch, ("shapes", "--out", "runs", "--epochs", "7"))[0] == 2
    assert "was started with --epochs 2, not 7" in capsys.readouterr().err
    shutil.copytree(tried[0] / "runs", tmp_path / "runs")
    shape_folder(tmp_path / "shapes", {"circle": 5, "square": 5})
    monkeypatch.chdir(tmp_path)
    assert try_images(monkeypatch, ("shapes", "--out", "runs"))[0] == 2
    assert "differ from the images of this run" in capsys.readouterr().err


def test_a_dry_run_shows_what_was_chosen_and_trains_nothing(tmp_path, monkeypatch, capsys):
    shape_folder(tmp_path / "gray", {"circle": 12, "square": 12}, mode="L")
    code, runs = try_images(monkeypatch, (tmp_path / "gray", "--dry-run", "--out", tmp_path, "--jobs", "1"))
    printed = " ".join(capsys.readouterr().err.split())
    assert (code, runs) == (0, [])
    for text in (
        "24: 18 training, 2 validation, 4 test",
        "resnet-10-w16 on 16 x 16 pixels",
        "60 epochs",
        "flips 0",
        "gray",
    ):
        assert text in printed
    assert not (tmp_path / "try/gray/try.json").exists()


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda folder: None, "there is no folder or file"),
        (lambda folder: folder.mkdir(parents=True), "it is empty"),
        (lambda folder: shape_folder(folder, {"circle": 8}), "has only one class, 'circle'"),
        (lambda folder: shape_folder(folder, {"circle": 1, "square": 2}), "has no class with at least 3"),
    ],
)
def test_unusable_folders_are_refused_in_one_sentence(tmp_path, monkeypatch, capsys, make, expected):
    make(tmp_path / "data/here")
    code, _ = try_images(monkeypatch, (tmp_path / "data/here", "--out", tmp_path / "runs"))
    printed = capsys.readouterr().err.strip().splitlines()
    assert code == 2
    assert expected in printed[-1]
    assert "Traceback" not in "".join(printed)


def test_pretrained_weights_start_the_runs_and_gray_images_get_three_channels(tmp_path, monkeypatch, capsys):
    from safetensors.torch import save_file

    from opl.experiments.models import ResNet

    save_file(ResNet(depth=10, stem="cifar", width=16).build(3, 4).state_dict(), tmp_path / "start.safetensors")
    shape_folder(tmp_path / "gray", {"circle": 8, "square": 8}, mode="L")
    (tmp_path / "gray/circle/more.png").write_bytes(encoded(draw("circle", 30, mode="L")))
    argv = (tmp_path / "gray", "--weights", tmp_path / "start.safetensors", "--out", tmp_path, "--seeds", "1")
    assert try_images(monkeypatch, (*argv, "--size", "8", "--epochs", "2", "--gamma", "5", "--jobs", "1"))[0] == 0
    about = json.loads((tmp_path / "try/gray/try-gray-opl/seed-0/result.json").read_text())
    assert "start.safetensors, SHA-256" in json.dumps(about)
    assert (
        try_images(monkeypatch, (*argv[:3], "--network", "resnet-18", "--out", tmp_path / "b", "--jobs", "1"))[0] == 2
    )
    assert "the weights are for resnet-10-w16" in capsys.readouterr().err
