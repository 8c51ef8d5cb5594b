"""The network of Madry et al. equals its code, written as formulas."""

import math
from itertools import pairwise

import pytest
import torch
import torch.nn.functional as F
from _batch_norms import shuffled
from torch import nn

from opl.experiments.models import MadryResNet
from opl.experiments.models.madry_resnet import EPS, ZeroPaddedUnit
from opl.optim import SGD, param_groups

pytestmark = pytest.mark.usefixtures("one_thread")


def activated(x, norm):
    """Batch norm in training with TensorFlow's default epsilon, and the leaky ReLU as the code writes it."""
    x = F.batch_norm(x, None, None, norm.weight, norm.bias, training=True, eps=1e-3)
    return torch.where(x < 0, 0.1 * x, x)


@pytest.mark.parametrize(("before", "width", "stride", "first"), [(4, 10, 1, True), (4, 8, 2, False), (4, 4, 1, False)])
def test_unit_equals_its_formula(before, width, stride, first):
    unit, x = shuffled(ZeroPaddedUnit(before, width, stride)), torch.randn(3, before, 6, 6)
    unit.activate_shortcut = first
    active = activated(x, unit.bn1)
    middle = activated(F.conv2d(active, unit.conv1.weight, stride=stride, padding=1), unit.bn2)
    expected = F.conv2d(middle, unit.conv2.weight, padding=1)
    shortcut, margin = active if first else x, (width - before) // 2
    for i in range(6 // stride):
        for j in range(6 // stride):
            window = shortcut[:, :, i * stride : (i + 1) * stride, j * stride : (j + 1) * stride]
            expected[:, margin : margin + before, i, j] += window.mean((2, 3))
    torch.testing.assert_close(unit(x), expected, atol=1e-4, rtol=1e-4)


def test_the_published_network_has_the_parameters_of_its_layers_and_none_in_shortcuts():
    with torch.device("meta"):
        model = MadryResNet().build(3, 10)
    widths = (16, *(160,) * 5, *(320,) * 5, *(640,) * 5)
    count = 9 * 3 * 16
    for before, width in pairwise(widths):
        count += 2 * before + 9 * before * width + 2 * width + 9 * width * width  # norm, convolution, twice
    count += 2 * 640 + 640 * 10 + 10
    assert sum(parameter.numel() for parameter in model.parameters()) == count == 45_901_914
    convolutions = [part for part in model.modules() if isinstance(part, nn.Conv2d)]
    assert len(convolutions) == 1 + 2 * 15  # "w32": with the classifier, 32 layers
    assert {part.kernel_size for part in convolutions} == {(3, 3)}
    assert {part.eps for part in model.modules() if isinstance(part, nn.BatchNorm2d)} == {EPS} == {1e-3}


def test_maps_halve_twice_and_initialization_is_as_published():
    model = MadryResNet(units=2, width=2).build(3, 10)
    shapes = []
    for name in ("layer1", "layer2", "layer3", "relu"):
        model.get_submodule(name).register_forward_hook(lambda m, i, output: shapes.append(tuple(output.shape[1:])))
    features = model(torch.rand(4, 3, 32, 32)).features
    assert shapes == [(32, 32, 32), (64, 16, 16), (128, 8, 8), (128, 8, 8)]
    assert features.shape == (4, 128)
    assert model.layer3[1].conv1.weight.std().item() == pytest.approx(math.sqrt(2 / (9 * 128)), rel=0.02)
    bound = math.sqrt(3 / 128)
    assert 0.98 * bound < model.fc.weight.abs().max() <= bound
    assert not model.fc.bias.any()


def test_only_kernels_decay():
    model = MadryResNet(units=1, width=1).build(3, 5)
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    optimizer = SGD(lr=0.1, momentum=0.0, weight_decay=0.5).build(param_groups(model, lr=0.1))
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    kernels = {f"{name}.weight" for name, part in model.named_modules() if isinstance(part, nn.Conv2d | nn.Linear)}
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(parameter.detach(), before[name] * (0.95 if name in kernels else 1.0))
    assert len(kernels) == 8
