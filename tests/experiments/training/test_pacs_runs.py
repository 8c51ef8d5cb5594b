"""Runs on synthetic PACS: started from weights, and with an oracle that selects nothing."""

import hashlib
from dataclasses import replace

import pytest
import torch

from opl.errors import OptionError
from opl.experiments import paper
from opl.experiments.data import SyntheticDomains
from opl.experiments.methods import CrossEntropyOPL
from opl.experiments.run_folder import RunFolder
from opl.experiments.training.run import run

pytestmark = pytest.mark.usefixtures("apart")


def tiny(**changes):
    return replace(paper.recipe("pacs-art-erm", "tiny"), **changes)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"checksum": "ab"}, "a checksum needs weights"),
        ({"weights": "x.pth", "after": "pacs-art-erm", "inherit": True}, "use only one of them"),
    ],
)
def test_recipes_whose_start_makes_no_sense_are_refused(changes, says):
    with pytest.raises(OptionError, match=says):
        tiny(**changes)


def test_a_run_records_its_initial_weights_and_resumes_without_them(tmp_path, monkeypatch):
    file = tmp_path / "weights.pth"
    trained = tiny().model.build(3, 1000)
    torch.save(trained.state_dict(), file)
    recipe = tiny(weights=str(file), epochs=2)
    whole = run(recipe, tmp_path / "whole")
    assert whole["start"] == f"{file}, SHA-256 {hashlib.sha256(file.read_bytes()).hexdigest()}"
    assert run(tiny(epochs=2), tmp_path / "scratch")["start"] == "scratch"

    class Stop(Exception):
        pass

    def save(self, state, real=RunFolder.save):
        real(self, state)
        raise Stop

    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "save", save)
        with pytest.raises(Stop):
            run(recipe, tmp_path / "again")
    file.unlink()
    assert run(recipe, tmp_path / "again")["start"] == whole["start"]

    def bytes_of(out: str) -> bytes:
        return (RunFolder.of(tmp_path / out, recipe.name, 0).path / "model.safetensors").read_bytes()

    assert bytes_of("again") == bytes_of("whole") != bytes_of("scratch")


def test_the_oracle_is_recorded_separately_and_never_used_for_selection(tmp_path):
    recipe = tiny(epochs=3, method=CrossEntropyOPL())
    plain, tested = run(recipe, tmp_path / "plain"), run(replace(recipe, oracle=True), tmp_path / "oracle")
    records = RunFolder.of(tmp_path / "oracle", recipe.name, 0).metrics()
    assert tested["ORACLE/test/top1"] == max(record["ORACLE/test/top1"] for record in records)
    same = ("test/top1", "val/top1", "test/loss")
    assert [tested[name] for name in same] == [plain[name] for name in same]
    assert not any("ORACLE" in name for name in plain)


@pytest.mark.parametrize("weights", ["nowhere.safetensors", "nobody/nothing"])
def test_missing_weights_are_refused_before_any_image_is_decoded(tmp_path, monkeypatch, weights):
    decoded = []
    monkeypatch.setattr(SyntheticDomains, "load", lambda self, seed: decoded.append(seed))
    with pytest.raises(OptionError, match=r"with --weights; put the file below \$OPL_DATA .*; or train from scratch"):
        run(tiny(weights=weights), tmp_path)
    assert decoded == []
