"""An exported ResNet is a state dict in torchvision's names: it loads strictly into an independent ResNet."""

from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file, save

from _exported_runs import CUSTOM, write_untrained
from _finished_runs import load
from _transformers_resnet import disturb_batch_norms, torchvisions_name, transformers_config
from opl.experiments.data import Cifar100
from opl.experiments.export.bundle import export_run
from opl.experiments.methods import ArcFace, Composite
from opl.experiments.models import CifarResNet, ResNet, from_pretrained
from opl.experiments.training.build import build_model

RECIPE = replace(CUSTOM, name="photos", data=Cifar100(classes=7), model=ResNet(depth=18))


@pytest.mark.parametrize("normalize", ["data", "model"])
def test_the_weights_give_transformers_resnet_the_same_logits(tmp_path, normalize):
    from transformers import ResNetForImageClassification

    recipe = replace(RECIPE, normalize=normalize)
    weights = {name: value.contiguous() for name, value in build_model(recipe).state_dict().items()}
    disturb_batch_norms(weights)
    run = write_untrained(tmp_path / "runs", recipe, weights=save(weights))
    export_run(run, tmp_path / "export", license="mit")
    theirs = ResNetForImageClassification(transformers_config(18, num_labels=7)).eval()
    exported = load_file(tmp_path / "export" / "model.safetensors")
    renamed = {torchvisions_name(name): name for name in theirs.state_dict()}
    theirs.load_state_dict({renamed[name]: value for name, value in exported.items()}, strict=True)
    mean, std = (torch.tensor(values).view(-1, 1, 1) for values in (recipe.data.mean, recipe.data.std))
    images = torch.rand(3, 3, 32, 32)
    with torch.no_grad():
        expected = theirs((images - mean) / std).logits
        torch.testing.assert_close(from_pretrained(tmp_path / "export")(images).logits, expected, rtol=1e-4, atol=1e-4)
    assert load(tmp_path / "export" / "config.json")["torchvision"] == "resnet18"
    card = (tmp_path / "export" / "README.md").read_text()
    assert "from torchvision.models import resnet18" in card
    assert "resnet18(num_classes=7)" in card


@pytest.mark.parametrize(
    "changes",
    [
        {"model": CifarResNet(depth=8)},
        {"model": ResNet(depth=10)},
        {"model": ResNet(depth=18, stem="half", width=8)},
        {"model": ResNet(depth=18, width=8)},
        {"model": ResNet(depth=18), "data": CUSTOM.data},
        {"model": ResNet(depth=18), "method": Composite(head=ArcFace())},
    ],
    ids=["cifar", "depth", "stem", "width", "channels", "head"],
)
def test_other_networks_have_no_torchvision_name(tmp_path, changes):
    export_run(write_untrained(tmp_path / "runs", replace(RECIPE, **changes)), tmp_path / "export", license="mit")
    assert load(tmp_path / "export" / "config.json")["torchvision"] == ""
    card = (tmp_path / "export" / "README.md").read_text()
    assert "torchvision has no such network" in card
    assert "load_state_dict" not in card
