"""ResNet-12 is the published net."""

import copy
import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from opl.errors import OptionError
from opl.experiments.models import ResNet12
from opl.experiments.models.dropblock import DropBlock

SLIM = ResNet12(widths=(4, 6, 8, 10), block=2, ramp=4)

pytestmark = pytest.mark.usefixtures("one_thread")


def test_the_number_of_parameters_is_the_published_one_with_and_without_a_head_for_64_classes():
    with torch.device("meta"):
        model = ResNet12().build(3, 64)
    count = {part: sum(p.numel() for p in model.get_submodule(part).parameters()) for part in ("", "fc")}
    assert count[""] == 12_465_344
    assert count[""] - count["fc"] == 12_424_320
    assert model.feature_dim == 640


@pytest.mark.parametrize(("size", "expected"), [(84, [42, 21, 10, 5]), (32, [16, 8, 4, 2]), (16, [8, 4, 2, 1])])
def test_every_block_halves_the_map(size, expected):
    model, seen = SLIM.build(3, 7), []
    for number in range(1, 5):
        layer = model.get_submodule(f"layer{number}")
        layer.register_forward_hook(lambda m, i, output: seen.append(tuple(output.shape[1:])))
    model(torch.randn(2, 3, size, size))
    assert seen == [(width, side, side) for width, side in zip(SLIM.widths, expected, strict=True)]


def published(weights, images, slope=0.1):
    """The features as the published net is described, from a state dict; LeakyReLU before the max-pool."""

    def normed(x, name):
        mean, variance = (weights[f"{name}.running_{what}"][:, None, None] for what in ("mean", "var"))
        gain, bias = (weights[f"{name}.{what}"][:, None, None] for what in ("weight", "bias"))
        return (x - mean) / (variance + 1e-5).sqrt() * gain + bias

    def leaky(x):
        return torch.where(x > 0, x, slope * x)

    x = images
    for block in ("layer1.0", "layer2.0", "layer3.0", "layer4.0"):
        residual = x
        for number in (1, 2, 3):
            residual = F.conv2d(residual, weights[f"{block}.conv{number}.weight"], padding=1)
            residual = normed(residual, f"{block}.bn{number}")
            residual = leaky(residual) if number < 3 else residual
        straight = normed(F.conv2d(x, weights[f"{block}.downsample.0.weight"]), f"{block}.downsample.1")
        x = F.max_pool2d(leaky(residual + straight), 2)
    return x.mean((2, 3))


def test_the_net_is_the_published_one_written_out():
    model, images = SLIM.build(3, 7).double(), torch.randn(3, 3, 37, 32).double()
    for part in model.modules():  # batch norms that do something, so that a forgotten one shows
        if isinstance(part, nn.BatchNorm2d):
            nn.init.uniform_(part.weight, 0.5, 1.5), nn.init.normal_(part.bias)
            part.running_mean.normal_(), part.running_var.uniform_(0.5, 1.5)
    features, logits = model.eval()(images)
    torch.testing.assert_close(features, published(model.state_dict(), images))
    torch.testing.assert_close(logits, features @ model.fc.weight.T + model.fc.bias)
    assert (features < 0).any()


def test_single_cells_are_dropped_in_the_first_two_blocks_and_squares_in_the_others():
    drops = [part for part in ResNet12(drop=0.2, block=2, ramp=9).build(3, 7).modules()
             if isinstance(part, nn.Dropout | DropBlock)]  # fmt: skip
    assert (
        list(map(repr, drops)) == ["Dropout(p=0.2, inplace=False)"] * 2 + ["DropBlock(rate=0.2, block=2, ramp=9)"] * 2
    )


def test_new_weights_are_he_normal():
    model = ResNet12().build(3, 7)
    for name, outputs in (("layer1.0.conv2", 9 * 64), ("layer4.0.conv3", 9 * 640), ("layer4.0.downsample.0", 640)):
        weight = model.get_submodule(name).weight
        assert weight.std().item() == pytest.approx(math.sqrt(2 / outputs), rel=0.02)
        assert weight.abs().max() > 3.5 * weight.std()  # normal, not uniform
    assert all((part.weight == 1).all() for part in model.modules() if isinstance(part, nn.BatchNorm2d))


def test_training_a_block_compiles_into_one_graph():
    block, maps_before = SLIM.build(3, 7).layer3, torch.randn(4, 6, 8, 8)
    twin = copy.deepcopy(block)
    compiled = torch.compile(twin, fullgraph=True, backend="aot_eager")
    for step in range(3):
        torch.manual_seed(step)
        expected = block(maps_before)
        torch.manual_seed(step)
        actual = compiled(maps_before)
        torch.testing.assert_close(actual, expected)
        expected.square().sum().backward(), actual.square().sum().backward()
    assert twin[0].drop.step == 3
    torch.testing.assert_close(twin[0].conv1.weight.grad, block[0].conv1.weight.grad)


def test_images_too_small_to_halve_four_times_are_refused():
    model = SLIM.build(3, 7).eval()
    for size in ((8, 8), (15, 32), (32, 4)):
        with pytest.raises(OptionError, match="16x16 pixels or more"):
            model(torch.randn(2, 3, *size))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (ResNet12(widths=(64, 160, 320)), ["widths has 3 values", "give 4"]),
        (ResNet12(widths=(64, 160, 0, 640)), ["widths.2 is 0", "from 1 to"]),
        (ResNet12(drop=1.0), ["drop is 1.0", "below 1"]),
        (ResNet12(drop=-0.1), ["drop is -0.1"]),
        (ResNet12(block=0), ["block is 0", "from 1 to"]),
        (ResNet12(ramp=-1), ["ramp is -1"]),
    ],
    ids=str,
)
def test_settings_that_cannot_be_built_are_refused_in_one_sentence(settings, words):
    with pytest.raises(OptionError) as refusal:
        settings.build(3, 10)
    assert all(word in str(refusal.value) for word in words), refusal.value
