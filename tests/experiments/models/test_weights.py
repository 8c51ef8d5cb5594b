"""Weights load from under any wrapper, and those of another model are refused."""

import copy

import pytest
import torch
from torch import nn

from opl.errors import OptionError
from opl.experiments.models import CifarResNet, DigitsNet, load_weights

pytestmark = pytest.mark.usefixtures("one_thread")


def same_weights(one, other):
    one, other = one.state_dict(), other.state_dict()
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def small(num_classes=5, width=4):
    return CifarResNet(depth=8, width=width).build(3, num_classes)


@pytest.mark.parametrize("prefix", ["", "module.", "_orig_mod.", "model.", "module._orig_mod.", "model.module."])
@pytest.mark.parametrize("nest", [None, "state_dict", "model"])
def test_weights_load_from_under_any_wrapper(prefix, nest):
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


def test_whole_numbers_are_no_weights_but_counters_are():
    target, source = small(), small().state_dict()
    before = copy.deepcopy(target)
    with pytest.raises(OptionError, match=r"whole numbers: conv1\.weight, bn1\.weight"):
        load_weights(target, {name: value.long() for name, value in source.items()})
    assert same_weights(before, target)
    load_weights(target, {name: value.half() if value.is_floating_point() else value for name, value in source.items()})
