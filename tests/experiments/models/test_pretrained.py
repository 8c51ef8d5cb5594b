"""Pretrained weights in torchvision's names: the features of an independent ResNet, wherever they come from."""

import hashlib
import zipfile

import pytest
import torch
from safetensors.torch import save_file

from _transformers_resnet import disturb_batch_norms, torchvisions_name, transformers_config
from opl.errors import OptionError
from opl.experiments.models import CifarResNet, ResNet, load_pretrained


@pytest.fixture(autouse=True)
def offline(monkeypatch, tmp_path):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.delenv("OPL_DATA", raising=False)


def transformers_resnet(depth: int) -> torch.nn.Module:
    from transformers import ResNetModel

    model = ResNetModel(transformers_config(depth)).eval()
    disturb_batch_norms(model.state_dict())
    return model


@pytest.mark.parametrize(("depth", "suffix"), [(18, ".pth"), (50, ".safetensors")])
def test_torchvisions_names_give_the_features_of_transformers_resnet(tmp_path, depth, suffix):
    theirs = transformers_resnet(depth)
    weights = {torchvisions_name(name): value.clone() for name, value in theirs.state_dict().items()}
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


class Evil:
    def __init__(self, file) -> None:
        self.file = file

    def __reduce__(self):
        return open, (str(self.file), "w")


@pytest.mark.parametrize("suffix", [".pth", ".pt", ".bin", ".safetensors"])
def test_weights_that_are_a_program_do_not_run(tmp_path, suffix):
    torch.save({"fc.weight": Evil(tmp_path / "ran")}, tmp_path / f"w{suffix}")
    with pytest.raises(OptionError, match="no weights can be read"):
        load_pretrained(CifarResNet(depth=8, width=8).build(3, 5), str(tmp_path / f"w{suffix}"))
    assert not (tmp_path / "ran").exists()


def test_packed_weights_are_refused_by_what_they_unpack_to(tmp_path):
    torch.save({"fc.weight": torch.zeros(1 << 18)}, tmp_path / "whole.pt")
    with (
        zipfile.ZipFile(tmp_path / "whole.pt") as whole,
        zipfile.ZipFile(tmp_path / "packed.pt", "w", zipfile.ZIP_DEFLATED) as packed,
    ):
        for member in whole.infolist():
            packed.writestr(member.filename, whole.read(member))
    with pytest.raises(OptionError, match="would unpack to 1,"):
        load_pretrained(CifarResNet(depth=8, width=8).build(3, 5), str(tmp_path / "packed.pt"))


def test_weights_that_only_look_like_arrays_are_refused(tmp_path):
    model = CifarResNet(depth=8, width=8).build(3, 5)
    weights = model.state_dict()
    name = next(iter(weights))
    for strange in (torch.zeros(()).expand(weights[name].shape), weights[name].to_sparse(), "text", 1.0):
        torch.save({**weights, name: strange}, tmp_path / "w.pt")
        with pytest.raises(OptionError, match="no plain arrays"):
            load_pretrained(model, str(tmp_path / "w.pt"))


def test_a_checkpoint_in_itself_is_refused(tmp_path):
    state: dict = {}
    state["model"] = state
    torch.save(state, tmp_path / "w.pt")
    with pytest.raises(OptionError, match="another model"):
        load_pretrained(CifarResNet(depth=8, width=8).build(3, 5), str(tmp_path / "w.pt"))
