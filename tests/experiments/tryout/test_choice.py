"""Networks and settings are chosen by the images, and recipes of the arms differ in the method alone."""

from dataclasses import replace

import pytest
import torch
from safetensors.torch import save_file

from opl.errors import OptionError
from opl.experiments.data import UserImages
from opl.experiments.models import ResNet
from opl.experiments.results.conformity import OF_METHOD
from opl.experiments.settings import differences, to_json
from opl.experiments.tryout import choice
from opl.experiments.tryout.choice import ARMS, LADDER, Choice, choose_batch_size, choose_size, choose_stem, network_of
from opl.experiments.tryout.preferences import NETWORKS

IMAGES = UserImages(name="try-a", root="somewhere", key="key", size=32)
CHOICE = Choice("resnet-10-w16", 32, 8, 0.1, 4)


def test_the_recipes_of_the_arms_differ_in_the_method_alone(tmp_path):
    first, *others = (to_json(CHOICE.recipe(arm, IMAGES)) for arm in ARMS)
    assert others
    for other in others:
        changed = differences(first, other)
        assert {name.split(".")[0] for name in changed} <= OF_METHOD
        assert changed


def test_weight_and_gamma_reach_the_arm_with_opl(tmp_path):
    recipe = replace(CHOICE, weight=0.3, gamma=2.0).recipe(ARMS[1], IMAGES)
    assert (recipe.method.opl.weight, recipe.method.opl.gamma) == (0.3, 2.0)


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
    assert [*LADDER] == [name for name in NETWORKS if name in LADDER]


@pytest.mark.parametrize(
    ("side", "large", "size"), [(5, False, 8), (28, True, 28), (47, False, 32), (96, False, 64), (200, True, 128)]
)
def test_the_size_is_limited_by_the_images_and_the_machine(side, large, size):
    assert choose_size(side, large) == size


def test_batches_have_two_images_per_class_if_there_are_enough():
    assert choose_batch_size(20_000, 100) == 256
    assert choose_batch_size(400, 100) == 64  # at least eight steps an epoch
    assert choose_batch_size(10, 2) == 32


@pytest.mark.parametrize(("name", "stem"), [("resnet-10-w16", "half"), ("resnet-10-w32", "imagenet")])
def test_the_network_of_pretrained_weights_is_determined_by_trying(tmp_path, name, stem):
    depth, width = NETWORKS[name]
    save_file(ResNet(depth=depth, stem=stem, width=width).build(3, 7).state_dict(), tmp_path / "weights.safetensors")
    assert network_of(str(tmp_path / "weights.safetensors")) == (name, stem)


def test_weights_of_no_network_and_no_weights_are_errors(tmp_path, monkeypatch):
    monkeypatch.setattr(choice, "NETWORKS", {"resnet-10-w16": NETWORKS["resnet-10-w16"]})
    save_file({"fc.weight": torch.zeros(2, 2)}, tmp_path / "other.safetensors")
    with pytest.raises(OptionError, match="fits none of resnet-10-w16"):
        network_of(str(tmp_path / "other.safetensors"))
    with pytest.raises(OptionError, match="there are no weights"):
        network_of(str(tmp_path / "missing.safetensors"))


def test_the_first_layers_follow_the_size():
    assert [choose_stem(size) for size in (28, 47, 48, 64, 111, 112, 224)] == ["cifar"] * 2 + ["half"] * 3 + [
        "imagenet"
    ] * 2
