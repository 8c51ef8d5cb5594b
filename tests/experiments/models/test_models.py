"""Every architecture has the published size, and gives the exact input of its classifier as features."""

import copy
import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from opl import FeatureTap
from opl.errors import OptionError
from opl.experiments.models import (
    CifarResNet,
    DigitsNet,
    EfficientNetLite0,
    FastNet,
    MadryResNet,
    MnistNet,
    NeuralScale,
    PreActResNet18,
    ResNet,
    ResNet12,
    Vgg11,
    ViT,
    WideResNet,
)
from opl.experiments.types import Output

SMALL = {  # settings, channels, size of the images, length of the features, whether none is negative
    "cifar resnet": (CifarResNet(depth=8, width=4), 3, 32, 16, True),
    "resnet, imagenet stem": (ResNet(depth=18), 3, 64, 512, True),
    "resnet, cifar stem": (ResNet(depth=18, stem="cifar"), 3, 16, 512, True),
    "resnet of bottlenecks": (ResNet(depth=50), 3, 64, 2048, True),
    "wide resnet": (WideResNet(depth=10, width=1), 3, 16, 64, True),
    "madry resnet": (MadryResNet(units=1, width=2), 3, 16, 128, False),
    "resnet-12": (ResNet12(widths=(4, 6, 8, 10)), 3, 32, 10, False),
    "vgg": (Vgg11(widths=(4, 4, 8, 8, 8, 8, 8, 6)), 3, 32, 6, True),
    "pre-activation resnet": (
        PreActResNet18(widths=(4, 5, 4, 6, 8, 7, 8, 9, 8, 6, 7, 8, 9, 8, 8, 8, 6)),
        3,
        16,
        6,
        False,
    ),
    "neural scale": (NeuralScale(ratio=0.05), 3, 32, 31, True),
    "mnist": (MnistNet(), 1, 28, 32, True),
    "mnist in the plane": (MnistNet(embed=2), 1, 28, 2, False),
    "digits": (DigitsNet(), 1, 8, 64, True),
    "fast": (FastNet(width=2), 3, 32, 24, False),
}
EVERY = pytest.mark.parametrize(("settings", "channels", "size", "feature_dim", "positive"), SMALL.values(), ids=SMALL)

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.parametrize(
    ("settings", "num_classes", "count"),
    [
        (CifarResNet(depth=56), 100, 861_620),
        (CifarResNet(depth=110), 100, 1_736_564),
        (ResNet(depth=18), 1000, 11_689_512),
        (ResNet(depth=34), 1000, 21_797_672),
        (ResNet(depth=50), 1000, 25_557_032),
        (ResNet(depth=101), 1000, 44_549_160),
        (ResNet(depth=18, stem="cifar"), 10, 11_173_962),
        (ResNet12(), 64, 12_465_344),
        (WideResNet(depth=28), 10, 36_479_194),
        (WideResNet(depth=34), 10, 46_160_474),
        (WideResNet(depth=16, width=1), 10, 175_066),
        (Vgg11(), 100, 9_277_284),
        (PreActResNet18(), 100, 11_218_340),
        (EfficientNetLite0(), 1000, 4_652_008),
        # by hand: patches, 12 blocks of attention and MLP, the last norm, the classifier
        (ViT(), 1000, 769 * 384 + 12 * (12 * 384 * 384 + 13 * 384) + 2 * 384 + 385 * 1000),
        (NeuralScale("vgg11", source="uniform"), 100, 9_277_284),
        (NeuralScale("resnet18", source="uniform"), 100, 11_218_340),
        # by hand: 9 * (1*32 + 32*64 + 64*64 + 64*32) weights, 2 * (32 + 64 + 64 + 32) of batch norms, 32 * 10 + 10
        (MnistNet(), 10, 9 * 8224 + 384 + 330),
        (MnistNet(embed=2), 10, 9 * 8224 + 384 + (64 + 2) + (20 + 10)),
        (DigitsNet(), 10, (9 * 32 + 32) + (9 * 32 * 64 + 64) + (64 * 10 + 10)),
    ],
    ids=str,
)
def test_the_number_of_parameters_equals_the_published_number(settings, num_classes, count):
    channels = 1 if isinstance(settings, MnistNet | DigitsNet) else 3
    with torch.device("meta"):
        model = settings.build(channels, num_classes)
    assert sum(parameter.numel() for parameter in model.parameters()) == count


@EVERY
def test_features_are_the_exact_input_of_fc(settings, channels, size, feature_dim, positive):
    model = settings.build(channels, 7)
    seen = []
    model.fc.register_forward_pre_hook(lambda layer, inputs: seen.append(inputs[0]))
    output = model(torch.randn(3, channels, size, size))
    assert isinstance(output, Output)
    assert output.features.shape == (3, feature_dim) == (3, model.feature_dim)
    assert output.logits.shape == (3, 7)
    assert output.features is seen[0]
    torch.testing.assert_close(output.logits, F.linear(output.features, model.fc.weight, model.fc.bias))
    assert not positive or (output.features >= 0).all()


@EVERY
def test_every_parameter_gets_a_gradient(settings, channels, size, feature_dim, positive):
    model = settings.build(channels, 7)
    F.cross_entropy(model(torch.randn(4, channels, size, size)).logits, torch.tensor([0, 3, 6, 3])).backward()
    silent = {name for name, parameter in model.named_parameters() if not parameter.grad.any()}
    # a bias before a batch norm changes nothing: VGG has them because the published count does
    idle = {f"{name}.bias" for name, part in model.named_modules() if isinstance(part, nn.Conv2d)}
    assert silent <= (idle if isinstance(settings, Vgg11 | NeuralScale) else set())
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())


@EVERY
def test_channels_last_images_give_the_same_numbers(settings, channels, size, feature_dim, positive):
    model, images = settings.build(channels, 7).eval(), torch.randn(2, channels, size, size)
    with torch.no_grad():
        expected = model(images)
        layout = torch.channels_last
        for actual in (model(images.to(memory_format=layout)), model.to(memory_format=layout)(images)):
            torch.testing.assert_close(actual, expected, atol=1e-4, rtol=1e-4)


@EVERY
def test_a_copy_is_the_same_function_with_its_own_weights(settings, channels, size, feature_dim, positive):
    model, images = settings.build(channels, 7).eval(), torch.randn(2, channels, size, size)
    twin = copy.deepcopy(model)
    with torch.no_grad():
        expected = model(images).logits
        model.fc.weight.zero_()
        torch.testing.assert_close(twin(images).logits, expected, atol=0, rtol=0)


@EVERY
def test_other_image_sizes_work(settings, channels, size, feature_dim, positive):
    model = settings.build(channels, 7).eval()
    with torch.no_grad():
        assert model(torch.randn(2, channels, size + 9, size + 4)).features.shape == (2, feature_dim)


@EVERY
def test_feature_tap_detects_the_classifier(settings, channels, size, feature_dim, positive):
    model = settings.build(channels, 7).eval()
    with FeatureTap(model) as tap, torch.no_grad():
        output = model(torch.randn(2, channels, size, size))
        assert tap.features is output.features


@pytest.mark.slow
def test_a_model_compiles_into_one_graph():
    model, images = CifarResNet(depth=8, width=4).build(3, 7).eval(), torch.randn(2, 3, 16, 16)
    output = torch.compile(model, fullgraph=True, backend="aot_eager")(images)
    assert isinstance(output, Output)
    torch.testing.assert_close(output, model(images))


def test_maps_shrink_as_published():
    def sizes(model, image, names):
        seen = []
        for name in names:
            model.get_submodule(name).register_forward_hook(lambda m, i, output: seen.append(tuple(output.shape[1:])))
        model.eval()(image)
        return seen

    image = torch.randn(1, 3, 32, 32)
    cifar = sizes(CifarResNet(depth=8).build(3, 10), image, ["relu", "layer1", "layer2", "layer3"])
    assert cifar == [(16, 32, 32), (16, 32, 32), (32, 16, 16), (64, 8, 8)]
    stem = sizes(ResNet(18, "cifar").build(3, 10), image, ["relu", "layer1", "layer2", "layer3", "layer4"])
    assert stem == [(64, 32, 32), (64, 32, 32), (128, 16, 16), (256, 8, 8), (512, 4, 4)]
    large = torch.randn(1, 3, 224, 224)
    assert sizes(ResNet(18).build(3, 10), large, ["relu", "maxpool", "layer1", "layer4"]) == [
        (64, 112, 112),
        (64, 56, 56),
        (64, 56, 56),
        (512, 7, 7),
    ]
    vgg = Vgg11().build(3, 10)
    convolutions = [name for name, part in vgg.named_modules() if isinstance(part, nn.Conv2d)]
    assert [height for _, height, _ in sizes(vgg, image, [*convolutions, "trunk"])] == [32, 16, 8, 8, 4, 4, 2, 2, 1]
    assert sizes(MnistNet().build(1, 10), torch.randn(1, 1, 28, 28), ["trunk"]) == [(32, 3, 3)]
    assert sizes(DigitsNet().build(1, 10), torch.randn(1, 1, 8, 8), ["trunk"]) == [(64, 4, 4)]


def test_initialization_is_as_published():
    cifar = CifarResNet(depth=8).build(3, 10).layer3[0].conv2.weight
    bound = math.sqrt(6 / (9 * 64))  # uniform: the largest is nearly the bound, and none is above
    assert 0.99 * bound < cifar.abs().max() <= bound
    he_normal = {ResNet(): "layer2.0.conv1", Vgg11(): "trunk.4", PreActResNet18(): "block3.conv1"}  # 128 out of 64, 3x3
    for settings, name in he_normal.items():
        weight = settings.build(3, 10).get_submodule(name).weight
        assert weight.shape == (128, 64, 3, 3)
        assert weight.std().item() == pytest.approx(math.sqrt(2 / (9 * 128)), rel=0.02)
        assert weight.abs().max() > 3 * weight.std()  # normal, not uniform
    default = ResNet(stem="cifar").build(3, 10).layer2[0].conv1.weight
    assert default.abs().max().item() == pytest.approx(math.sqrt(1 / (9 * 64)), rel=0.01)
    vgg = Vgg11().build(3, 100)
    assert (vgg.trunk[1].weight == 0.5).all()
    assert not vgg.trunk[0].bias.any()
    assert vgg.fc.weight.std().item() == pytest.approx(0.01, rel=0.05)


@pytest.mark.parametrize(
    ("settings", "phrases"),
    [
        (CifarResNet(depth=57), ["depth is 57", "6n + 2", "56 or 62"]),
        (CifarResNet(depth=2), ["depth is 2", "8 or 14"]),
        (CifarResNet(depth=18), ["14 or 20"]),
        (ResNet(depth=56), ["depth is 56", "18, 34, 50, 101"]),
        (ResNet(stem="cifar10"), ["'cifar10'", "did you mean 'cifar'"]),
        (ResNet12(widths=(64, 160, 320)), ["widths has 3 values", "must have 4"]),
        (ResNet12(widths=(64, 160, 0, 640)), ["widths.2 is 0", "between 1 and"]),
        (ResNet12(drop=1.0), ["drop is 1.0", "below 1"]),
        (ResNet12(drop=-0.1), ["drop is -0.1"]),
        (ResNet12(block=0), ["block is 0", "between 1 and"]),
        (ResNet12(ramp=-1), ["ramp is -1"]),
        (Vgg11(widths=(8, 8)), ["has 2 numbers", "needs 8"]),
        (PreActResNet18(widths=(4, 4)), ["has 2 numbers", "PreActResNet18 needs 17"]),
        (NeuralScale(ratio=0.0), ["ratio"]),
        (ViT(width=30, heads=2), ["multiple of 8"]),
        (ViT(depth=0), ["model.depth is 0"]),
        (WideResNet(depth=30), ["depth is 30", "28 or 34"]),
        (WideResNet(width=0), ["width is 0"]),
        (MadryResNet(units=0), ["units is 0"]),
    ],
    ids=str,
)
def test_invalid_model_settings_are_refused(settings, phrases):
    with pytest.raises(OptionError) as refusal:
        settings.build(3, 10)
    assert all(word in str(refusal.value) for word in phrases), refusal.value
