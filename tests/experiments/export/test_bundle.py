"""The files of an export, and the folders and runs that are refused."""

import json
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file

from _exported_runs import CUSTOM, write_untrained
from _finished_runs import load
from _said import says
from _vouched import vouch
from opl.errors import FolderError, OptionError
from opl.experiments import paper
from opl.experiments.export import bundle
from opl.experiments.export.bundle import export_run
from opl.experiments.methods import Composite, CosFace
from opl.experiments.models.exported import HeadConfig


@pytest.fixture
def run(tmp_path):
    """The folder of a finished run."""
    return write_untrained(tmp_path / "runs", CUSTOM)


def names(folder) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_the_files_of_an_export_have_the_weights_and_settings_of_the_run(run, tmp_path):
    written = export_run(run, tmp_path / "export", license="mit")
    assert sorted(path.name for path in written) == names(tmp_path / "export")
    assert names(tmp_path / "export") == ["README.md", "config.json", "model.safetensors", "training.json"]
    theirs, ours = (load_file(folder / "model.safetensors") for folder in (run, tmp_path / "export"))
    assert theirs.keys() == ours.keys()
    assert all(torch.equal(value, theirs[name]) for name, value in ours.items())
    config = load(tmp_path / "export" / "config.json")
    assert config["model"] == {"kind": "ResNet", "depth": 10, "stem": "cifar", "width": 8}
    assert (config["channels"], config["size"], config["num_classes"]) == (1, 8, 10)
    assert (config["mean"], config["std"], config["data"]) == ([0.3053], [0.3759], "digits")
    assert config["class_names"] == list("0123456789")
    assert load(tmp_path / "export" / "training.json") == load(run / "recipe.json")


def test_normalization_in_the_network_is_in_the_config_and_not_in_the_weights(tmp_path):
    run = write_untrained(tmp_path / "runs", replace(CUSTOM, normalize="model"))
    export_run(run, tmp_path / "export", license="mit")
    theirs, ours = (load_file(folder / "model.safetensors") for folder in (run, tmp_path / "export"))
    assert theirs.keys() - ours.keys() == {"standardize.mean", "standardize.std"}
    assert load(tmp_path / "export" / "config.json")["std"] == [0.3759]


def test_no_path_of_the_machine_is_published(tmp_path):
    data = replace(CUSTOM.data, root="/elsewhere/digits")
    recipe = replace(CUSTOM, data=data, weights="/elsewhere/start.pth")
    start = {"start": "/elsewhere/start.pth, SHA-256 abc"}
    export_run(write_untrained(tmp_path / "runs", recipe, result=start), tmp_path / "export", license="mit")
    texts = "".join((tmp_path / "export" / name).read_text() for name in ("README.md", "config.json", "training.json"))
    assert "/elsewhere" not in texts
    assert str(tmp_path) not in texts
    assert "from start.pth, SHA-256 abc;" in texts


def test_an_earlier_export_of_the_run_is_renewed_and_other_files_stay(run, tmp_path):
    target = tmp_path / "export"
    export_run(run, target, license="mit")
    (target / "notes.txt").write_text("mine")
    (target / "README.md").write_text("old")
    (target / "similarity.png").write_text("of an earlier export, and not drawn now")
    export_run(run, target, license="mit")
    assert (target / "README.md").read_text().startswith("---\n")
    assert (target / "notes.txt").read_text() == "mine"
    assert not (target / "similarity.png").exists()


def test_folder_with_other_files_is_refused_and_unchanged(run, tmp_path):
    (tmp_path / "file").write_text("mine")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.tex").write_text("mine")
    (tmp_path / "bert").mkdir()
    (tmp_path / "bert" / "config.json").write_text(json.dumps({"model_type": "bert"}))
    export_run(write_untrained(tmp_path / "runs", replace(CUSTOM, seed=4)), tmp_path / "four", license="mit")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    for target, expected in [
        (tmp_path / "file", "is a file"),
        (tmp_path / "other", "do not belong to an export"),
        (run, "do not belong to an export"),
        (tmp_path / "bert", "is not a valid export"),
        (tmp_path / "four", "the export of another run (digits-ce, seed 4, custom)"),
    ]:
        says(lambda target=target: export_run(run, target, license="mit"), OptionError, [expected])
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("name", ["recipe.json", "result.json", "model.safetensors"])
def test_an_edited_run_is_refused(run, tmp_path, name):
    data = (run / name).read_bytes()
    (run / name).write_bytes(data[:-1] + bytes([data[-1] ^ 1]) if name == "model.safetensors" else data + b" ")
    says(lambda: export_run(run, tmp_path / "export", license="mit"), FolderError, [name, "not what the run wrote"])
    assert not (tmp_path / "export").exists()


def test_unfinished_tiny_and_unknown_runs_are_refused_with_a_sentence(run, tmp_path):
    target = tmp_path / "export"
    tiny = paper.recipe("digits-opl", "tiny")
    changed = replace(tiny, epochs=1, scale="custom", changes=("epochs 1 (recipe: 4)",))
    for number, recipe in enumerate((tiny, changed)):
        path = write_untrained(tmp_path / f"tiny-{number}", recipe)
        says(lambda path=path: export_run(path, target, license="mit"), OptionError, ["numbers mean nothing"])
    says(lambda: export_run(tmp_path, target, license="mit"), FolderError, ["is not a run"])
    (run / "done").write_text("")
    says(lambda: export_run(run, target, license="mit"), FolderError, ["done is not a valid list"])
    vouch(run)
    result = (run / "result.json").read_text()
    (run / "result.json").write_text(result[:-1])
    says(lambda: export_run(run, target, license="mit"), FolderError, ["is damaged: result.json"])
    (run / "result.json").write_text(result)
    (run / "done").unlink()
    vouch(run, done=False)
    says(lambda: export_run(run, target, license="mit"), FolderError, ["not a finished run (0 of 1 epochs"])
    assert not target.exists()


def test_network_that_is_not_reproduced_is_not_exported(tmp_path, monkeypatch):
    run = write_untrained(tmp_path / "runs", replace(CUSTOM, method=Composite(head=CosFace(scale=7.0))))
    monkeypatch.setattr(bundle, "_head", lambda *_: HeadConfig("CosFaceHead", {"scale": 8.0}))
    says(lambda: export_run(run, tmp_path / "export", license="mit"), FolderError, ["its logits differ"])
    assert not (tmp_path / "export").exists()


def test_write_errors_are_one_sentence(run, tmp_path):
    (tmp_path / "file").write_text("mine")
    says(lambda: export_run(run, tmp_path / "file" / "in", license="mit"), FolderError, ["cannot write to"])
