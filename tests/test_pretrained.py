"""Pretrained weights in torchvision's names: the features of an independent ResNet, a recorded start; table 5."""

import hashlib
import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from opl.errors import OptionError
from opl.experiments import tables
from opl.experiments.methods import CrossEntropyOPL
from opl.experiments.models import CifarResNet, ResNet, load_pretrained
from opl.experiments.results.runs import read_runs
from opl.experiments.results.tables import lines
from opl.experiments.run_folder import RunFolder
from opl.experiments.training.run import run


@pytest.fixture(autouse=True)
def offline(monkeypatch, tmp_path):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.delenv("OPL_DATA", raising=False)


def in_torchvisions_names(state: dict) -> dict:
    """The weights of transformers' ResNet, under the names that torchvision gives them."""
    named = {}
    for name, value in state.items():
        name = name.replace("embedder.embedder.convolution", "conv1").replace("embedder.embedder.normalization", "bn1")
        name = re.sub(r"encoder\.stages\.(\d)\.layers\.(\d+)", lambda m: f"layer{int(m[1]) + 1}.{m[2]}", name)
        name = re.sub(r"layer\.(\d)\.convolution", lambda m: f"conv{int(m[1]) + 1}", name)
        name = re.sub(r"layer\.(\d)\.normalization", lambda m: f"bn{int(m[1]) + 1}", name)
        name = name.replace("shortcut.convolution", "downsample.0").replace("shortcut.normalization", "downsample.1")
        named[name] = value.clone()
    return named


def transformers_resnet(depth: int) -> torch.nn.Module:
    from transformers import ResNetConfig, ResNetModel

    kind, depths, widths = {
        18: ("basic", [2, 2, 2, 2], [64, 128, 256, 512]),
        50: ("bottleneck", [3, 4, 6, 3], [256, 512, 1024, 2048]),
    }[depth]
    model = ResNetModel(ResNetConfig(layer_type=kind, depths=depths, hidden_sizes=widths, embedding_size=64)).eval()
    with torch.no_grad():
        for name, value in model.state_dict().items():
            if "normalization" in name and value.is_floating_point():  # no batch norm that does nothing
                value.add_(torch.rand_like(value) * 0.2)
    return model


@pytest.mark.parametrize(("depth", "suffix"), [(18, ".pth"), (50, ".safetensors")])
def test_torchvisions_names_give_the_features_of_transformers_resnet(tmp_path, depth, suffix):
    theirs = transformers_resnet(depth)
    weights = in_torchvisions_names(theirs.state_dict())
    weights |= {"fc.weight": torch.zeros(1000, theirs.config.hidden_sizes[-1]), "fc.bias": torch.zeros(1000)}
    file = tmp_path / f"resnet{depth}{suffix}"
    (torch.save if suffix == ".pth" else save_file)(weights, file)
    ours = ResNet(depth=depth).build(3, 7).eval()
    head = ours.fc.weight.clone()
    checksum = load_pretrained(ours, str(file))
    assert checksum == hashlib.sha256(file.read_bytes()).hexdigest()
    assert torch.equal(ours.fc.weight, head)  # new classes, a new head
    images = torch.randn(2, 3, 64, 64)
    with torch.no_grad():
        expected = theirs(images).pooler_output.flatten(1)
        torch.testing.assert_close(ours(images).features, expected, rtol=1e-4, atol=1e-4)


def test_weights_are_found_as_file_folder_or_below_opl_data(tmp_path, monkeypatch):
    settings = CifarResNet(depth=8, width=8)
    save_file(settings.build(3, 5).state_dict(), tmp_path / "model.safetensors")
    found = {load_pretrained(settings.build(3, 7), str(tmp_path / name)) for name in ("", "model.safetensors")}
    monkeypatch.setenv("OPL_DATA", str(tmp_path.parent))
    found.add(load_pretrained(settings.build(3, 7), tmp_path.name))
    assert len(found) == 1
    checksum = found.pop()
    assert load_pretrained(settings.build(3, 7), str(tmp_path), checksum[:10].upper()) == checksum


def test_what_comes_from_the_hub_is_the_first_file_of_weights_there(tmp_path, monkeypatch):
    from huggingface_hub.errors import EntryNotFoundError

    settings, asked = CifarResNet(depth=8, width=8), []
    torch.save(settings.build(3, 5).state_dict(), tmp_path / "pytorch_model.bin")

    def download(repository: str, name: str) -> str:
        asked.append((repository, name))
        if not (tmp_path / name).exists():
            raise EntryNotFoundError("404")
        return str(tmp_path / name)

    monkeypatch.setattr("huggingface_hub.hf_hub_download", download)
    load_pretrained(settings.build(3, 7), "somebody/resnet8")
    assert asked == [("somebody/resnet8", "model.safetensors"), ("somebody/resnet8", "pytorch_model.bin")]
    (tmp_path / "pytorch_model.bin").unlink()
    with pytest.raises(OptionError, match="has neither"):
        load_pretrained(settings.build(3, 7), "somebody/resnet8")


def test_weights_that_cannot_be_used_are_told_in_a_sentence(tmp_path):
    model = CifarResNet(depth=8, width=8).build(3, 7)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    good = tmp_path / "good.pth"
    torch.save(model.state_dict(), good)
    (tmp_path / "rubbish.pth").write_bytes(b"rubbish")
    torch.save(torch.zeros(3), tmp_path / "tensor.pth")
    torch.save(CifarResNet(depth=14, width=8).build(3, 7).state_dict(), tmp_path / "deeper.pth")
    for weights, checksum, says in [
        (str(good), "0" * 64, "have the SHA-256"),
        (str(tmp_path / "rubbish.pth"), "", "no weights can be read"),
        (str(tmp_path / "tensor.pth"), "", "holds a Tensor"),
        (str(tmp_path / "deeper.pth"), "", "of another model"),
        (str(tmp_path / "nowhere.pth"), "", "there are no weights"),
        ("nobody/nothing", "", "not to be had from the Hub"),
    ]:
        with pytest.raises(OptionError, match=says) as error:
            load_pretrained(model, weights, checksum)
        assert "\n" not in str(error.value)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def tiny(**changes):
    return replace(tables.recipe("pacs-art-erm", "tiny"), **changes)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"checksum": "ab"}, "a checksum needs weights"),
        ({"weights": "x.pth", "after": "pacs-art-erm", "inherit": True}, "give one of them"),
    ],
)
def test_recipes_whose_start_makes_no_sense_are_refused(changes, says):
    with pytest.raises(OptionError, match=says):
        tiny(**changes)


def test_a_run_starts_from_weights_says_so_and_resumes_without_them(tmp_path, monkeypatch):
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


# Table 5


def write_result(out: Path, name: str, seed: int, top1: float, start: str = "scratch", done: bool = True) -> None:
    folder = RunFolder.of(out, name, seed)
    folder.start({"name": name, "seed": seed, "scale": "small"}, {})
    if done:
        numbers = dict.fromkeys(tables.item("table-5").metrics, top1)
        folder.finish({"x": torch.zeros(1)}, {**numbers, "start": start})


def test_the_average_is_that_of_the_targets_seed_by_seed_and_says_from_scratch(tmp_path):
    table = tables.item("table-5")
    values = {"art": (40.0, 44.0), "cartoon": (50.0, 50.0), "sketch": (30.0, 34.0), "photo": (60.0, 60.0)}
    for target, (first, second) in values.items():
        for seed, value in enumerate((first, second)):
            write_result(tmp_path, f"pacs-{target}-erm", seed, value)
            write_result(tmp_path, f"pacs-{target}-erm-opl", seed, value + 1 + seed)
        write_result(tmp_path, f"pacs-{target}-rsc", 0, 50.0, "a file", done=target != "photo")
    found = {line.recipe: line for line in lines(table, read_runs(tmp_path), "small")}
    assert len(found) == 16 + 4
    erm, opl, rsc = (found[f"pacs-average-{name}"] for name in ("erm", "erm-opl", "rsc"))
    assert erm.label == "average ERM, from scratch"
    assert erm.values["test/top1"] == (45.0, 47.0)
    assert opl.values["test/top1"] == (46.0, 49.0)
    assert (opl.difference["test/top1"].mean, opl.difference["test/top1"].size) == (1.5, 2)
    assert (rsc.seeds, rsc.missing, rsc.paper) == ((), "seed 0 incomplete", {"test/top1": 87.47})
    assert found["pacs-art-rsc"].label == "Art RSC"
    assert found["pacs-photo-erm"].label == "Photo ERM, from scratch"


def test_the_paper_average_is_that_of_its_columns():
    rows = {row.recipe: row.paper for row in tables.item("table-5").rows}
    for average in tables.item("table-5").averages:
        if average.row.paper:
            mean = sum(rows[name]["test/top1"] for name in average.of) / 4
            assert average.row.paper["test/top1"] == pytest.approx(mean, abs=0.006)


def test_small_and_paper_recipes_select_on_source_validation_and_differ_in_size_alone():
    for row in tables.item("table-5").rows:
        for scale in ("paper", "small", "tiny"):
            recipe = tables.recipe(row.recipe, scale)
            assert recipe.selection == "best-val"
            assert not recipe.oracle
            assert bool(recipe.weights) == (scale == "paper")
    targets = {tables.recipe(row.recipe, "small").data.target for row in tables.item("table-5").at("small")}
    assert targets == {"art_painting", "cartoon", "sketch", "photo"}


def test_the_oracle_is_recorded_under_its_own_name_and_selects_nothing(tmp_path):
    recipe = tiny(epochs=3, method=CrossEntropyOPL())
    plain, told = run(recipe, tmp_path / "plain"), run(replace(recipe, oracle=True), tmp_path / "oracle")
    records = RunFolder.of(tmp_path / "oracle", recipe.name, 0).metrics()
    assert told["ORACLE/test/top1"] == max(record["ORACLE/test/top1"] for record in records)
    same = ("test/top1", "val/top1", "test/loss")
    assert [told[name] for name in same] == [plain[name] for name in same]
    assert not any("ORACLE" in name for name in plain)
