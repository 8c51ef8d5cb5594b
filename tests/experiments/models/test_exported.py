"""An exported network is the network of its run, bit for bit, wherever it is loaded from."""

import json
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file, save_file

from _exported_runs import CUSTOM, write_untrained
from _said import says
from _vouched import sha256
from opl.errors import OptionError
from opl.experiments.export.bundle import export_run
from opl.experiments.methods import LGM, RBF, ArcFace, ASoftmax, Composite, CosFace, Linear, LSoftmax
from opl.experiments.models import from_pretrained
from opl.experiments.run_folder import RunFolder
from opl.experiments.training.build import finished_model
from opl.experiments.training.run import run

HEADS = (
    Linear(prior=False), ASoftmax(margin=3), LSoftmax(margin=2), CosFace(scale=7.0), ArcFace(scale=9.0, easy=True),
    LGM(weight=0.3, learn_variances=True), RBF(scale=3.0, gamma=5.0),
)  # fmt: skip


@pytest.fixture
def export(tmp_path):
    """An untrained run, exported."""
    export_run(write_untrained(tmp_path / "runs", CUSTOM), tmp_path / "export", license="mit")
    return tmp_path / "export"


@pytest.mark.parametrize("normalize", ["data", "model", "none"])
def test_a_trained_run_and_its_export_predict_the_same_bits(tmp_path, normalize):
    recipe = replace(CUSTOM, normalize=normalize)
    run(recipe, tmp_path / "runs")
    folder = RunFolder.of(tmp_path / "runs", recipe.name, recipe.seed)
    export_run(folder.path, tmp_path / "export", license="mit")
    network = from_pretrained(tmp_path / "export")
    stored, test = folder.outputs(), recipe.data.load(0).test
    pixels = test.take(torch.arange(len(test)))[0].float() / 255
    for layout in (torch.channels_last, torch.contiguous_format):
        with torch.no_grad():
            result = [network(part.contiguous(memory_format=layout)) for part in pixels.split(500)]
        logits, features = (torch.cat([each[index] for each in result]) for index in (1, 0))
        top5 = logits.topk(5).indices
        assert (top5.numpy() == stored["top5"]).all()
        assert (logits.softmax(1).gather(1, top5).half().numpy() == stored["p5"]).all()
        assert (features.half().numpy() == stored["features"]).all()


@pytest.mark.parametrize("head", HEADS, ids=lambda head: type(head).__name__)
def test_every_head_is_rebuilt_with_its_settings(tmp_path, head):
    recipe = replace(CUSTOM, method=Composite(head=head))
    path = write_untrained(tmp_path / "runs", recipe)
    export_run(path, tmp_path / "export", license="mit")
    images = torch.rand(4, 1, 8, 8)
    mean, std = (torch.tensor(values).view(-1, 1, 1) for values in (recipe.data.mean, recipe.data.std))
    with torch.no_grad():
        expected = finished_model(RunFolder(path)).eval()((images - mean) / std)
        result = from_pretrained(tmp_path / "export")(images)
    assert torch.equal(result.logits, expected.logits)
    assert torch.equal(result.features, expected.features)


def test_loading_sets_evaluation_mode_and_keeps_the_random_state(export):
    before = torch.get_rng_state()
    network = from_pretrained(str(export))
    assert torch.equal(torch.get_rng_state(), before)
    assert not any(part.training for part in network.modules())
    assert network.path[0] == "standardize"


def test_without_normalization_the_input_is_normalized_by_the_caller(export):
    config = json.loads((export / "config.json").read_text())
    images = torch.rand(3, 1, 8, 8)
    with torch.no_grad():
        whole = from_pretrained(export)(images).logits
        bare = from_pretrained(export, normalize=False)((images - config["mean"][0]) / config["std"][0]).logits
    torch.testing.assert_close(bare, whole)
    assert not torch.allclose(from_pretrained(export, normalize=False)(images).logits, whole)


def test_only_two_files_of_a_hub_id_are_downloaded(export, monkeypatch):
    requests = []

    def download(repository: str, **more) -> str:
        requests.append((repository, more))
        return str(export)

    monkeypatch.setattr("huggingface_hub.snapshot_download", download)
    result = from_pretrained("somebody/digits", revision="v1")
    files = ["config.json", "model.safetensors"]
    assert requests == [("somebody/digits", {"revision": "v1", "allow_patterns": files})]
    images = torch.rand(2, 1, 8, 8)
    assert torch.equal(result(images).logits, from_pretrained(export)(images).logits)


def test_invalid_exports_are_refused_in_one_sentence(export, tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    says(lambda: from_pretrained(tmp_path / "nowhere"), OptionError, ["there is no folder"])
    says(lambda: from_pretrained("nobody/nothing-at-all"), OptionError, ["the Hub does not provide it"])
    says(lambda: from_pretrained(tmp_path), OptionError, ["not a valid export", "config.json"])
    content = json.loads((export / "config.json").read_text())
    for change, message in [
        ({"kind": "ResNetConfig"}, "its kind is"),
        ({"model": {"kind": "ResNext"}}, "kind 'ResNext' does not exist"),
        ({"model": {"kind": "ResNet", "dept": 3}}, "did you mean 'depth'"),
        ({"height": 3}, "setting of NetworkConfig"),
    ]:
        (export / "config.json").write_text(json.dumps({**content, **change}))
        says(lambda: from_pretrained(export), OptionError, ["not a valid export", message])
    (export / "config.json").write_text(json.dumps({**content, "num_classes": 3}))
    says(lambda: from_pretrained(export), OptionError, ["10 classes of 64 features in the weights"])
    head = {"kind": "HeadConfig", "name": "CosfaceHead", "options": {}}
    (export / "config.json").write_text(json.dumps({**content, "head": head}))
    says(lambda: from_pretrained(export), OptionError, ["did you mean 'CosFaceHead'"])
    (export / "config.json").write_text(json.dumps(content))
    (export / "model.safetensors").write_bytes(b"half")
    says(lambda: from_pretrained(export), OptionError, ["cannot be read"])


def test_changed_weights_are_refused_unless_the_checksum_is_empty(export):
    content = json.loads((export / "config.json").read_text())
    assert content["sha256"] == sha256(export / "model.safetensors")
    weights = load_file(export / "model.safetensors")
    save_file({name: value + 1 for name, value in weights.items()}, export / "model.safetensors")
    says(lambda: from_pretrained(export), OptionError, ["differ from the exported ones", "set sha256 in config.json"])
    (export / "config.json").write_text(json.dumps({**content, "sha256": ""}))
    name, value = next(iter(from_pretrained(export).named_parameters()))
    assert torch.equal(value, weights[name] + 1)


ODD = (
    None, True, -1, 0, 1.5, 1e308, 10**400, float("nan"), float("inf"), "", "x", "a\0b", "\ud800", [], {}, [None], [[]],
    ["a"], [float("nan")], [-1.0], [0.0], [1e308, 2], {"kind": "ResNet"}, {"kind": "ResNet", "depth": "x"},
    {"kind": "ResNet", "depth": [1]}, {"kind": "HeadConfig", "name": "LinearHead", "options": {"x": 1}},
    {"kind": "HeadConfig", "name": [], "options": []}, {"kind": [1]}, {"kind": "HeadConfig"},
    {"kind": "HeadConfig", "name": "ArcFaceHead", "options": {"scale": "x"}},
)  # fmt: skip


@pytest.mark.slow
def test_odd_values_in_a_config_are_refused_or_load_the_same_network(export):
    content = json.loads((export / "config.json").read_text())
    images = torch.rand(2, 1, 8, 8)
    expected = from_pretrained(export)(images).logits
    loaded = 0
    for name in content:
        for value in ODD:
            (export / "config.json").write_text(json.dumps({**content, name: value}))
            try:
                network = from_pretrained(export)
            except OptionError:
                continue
            assert torch.equal(network(images).logits, expected) or name in ("mean", "std", "model"), (name, value)
            loaded += 1
    assert 0 < loaded < len(content) * len(ODD) / 4


@pytest.mark.parametrize(
    "change",
    [
        {"num_classes": 20_000_000},
        {"num_classes": 2**40},
        {"channels": 2**31},
        {"model": {"kind": "ResNet", "depth": 101, "width": 4096, "stem": "cifar"}},
        {"head": {"kind": "HeadConfig", "name": "LinearHead", "options": {}}, "num_classes": 20_000_000},
    ],
)
def test_a_config_cannot_allocate_more_memory_than_its_weights_take(export, change, monkeypatch):
    filled = []
    monkeypatch.setattr(torch.Tensor, "uniform_", lambda self, *_: filled.append(self.numel()) or self)
    content = json.loads((export / "config.json").read_text())
    (export / "config.json").write_text(json.dumps({**content, **change}))
    says(lambda: from_pretrained(export), OptionError, ["not a valid export"])
    assert max(filled, default=0) < 1 << 24
