"""Every architecture has the published size and names, and gives the exact input of its classifier as features."""

import copy
import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from opl import FeatureTap
from opl.errors import OptionError
from opl.experiments.models import (
    MODELS,
    CifarResNet,
    DigitsNet,
    MnistNet,
    ResNet,
    ResNet12,
    Vgg11,
    WideResNet,
    load_weights,
)
from opl.experiments.models.residual import BasicBlock, Bottleneck
from opl.experiments.models.wide_resnet import PreActivationBlock
from opl.experiments.types import Output

SMALL = {  # settings, channels, size of the images, length of the features, whether none is negative
    "cifar resnet": (CifarResNet(depth=8, width=4), 3, 32, 16, True),
    "resnet, imagenet stem": (ResNet(depth=18), 3, 64, 512, True),
    "resnet, cifar stem": (ResNet(depth=18, stem="cifar"), 3, 16, 512, True),
    "resnet of bottlenecks": (ResNet(depth=50), 3, 64, 2048, True),
    "wide resnet": (WideResNet(depth=10, width=1), 3, 16, 64, True),
    "resnet-12": (ResNet12(widths=(4, 6, 8, 10)), 3, 32, 10, False),
    "vgg": (Vgg11(widths=(4, 4, 8, 8, 8, 8, 8, 6)), 3, 32, 6, True),
    "mnist": (MnistNet(), 1, 28, 32, True),
    "mnist without the last relu": (MnistNet(last_relu=False), 1, 28, 32, False),
    "mnist in the plane": (MnistNet(embed=2), 1, 28, 2, False),
    "digits": (DigitsNet(), 1, 8, 64, True),
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
        # by hand: 9 * (1*32 + 32*64 + 64*64 + 64*32) weights, 2 * (32 + 64 + 64 + 32) of batch norms, 32 * 10 + 10
        (MnistNet(), 10, 9 * 8224 + 384 + 330),
        (MnistNet(embed=2), 10, 9 * 8224 + 384 + (64 + 2) + (20 + 10)),
        (DigitsNet(), 10, (9 * 32 + 32) + (9 * 32 * 64 + 64) + (64 * 10 + 10)),
    ],
    ids=str,
)
def test_the_number_of_parameters_is_the_published_one(settings, num_classes, count):
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
    assert silent <= (idle if isinstance(settings, Vgg11) else set())
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
def test_a_feature_tap_finds_the_classifier_unasked(settings, channels, size, feature_dim, positive):
    model = settings.build(channels, 7).eval()
    with FeatureTap(model) as tap, torch.no_grad():
        output = model(torch.randn(2, channels, size, size))
        assert tap.features is output.features


def test_settings_are_plain_values_of_one_type():
    assert all(isinstance(settings, MODELS) for settings, *_ in SMALL.values())
    assert replace(CifarResNet(), depth=110) == CifarResNet(depth=110, width=16)
    assert len({CifarResNet(), CifarResNet(depth=56), ResNet(), ResNet12(), Vgg11(), MnistNet(), DigitsNet()}) == 6


def test_a_model_compiles_into_one_graph():
    model, images = CifarResNet(depth=8, width=4).build(3, 7).eval(), torch.randn(2, 3, 16, 16)
    output = torch.compile(model, fullgraph=True, backend="aot_eager")(images)
    assert isinstance(output, Output)
    torch.testing.assert_close(output, model(images))


def test_the_depth_counts_the_layers_with_weights():
    for depth in (8, 20, 32, 44, 56, 110):
        with torch.device("meta"):
            model = CifarResNet(depth=depth).build(3, 10)
        layers = [name for name, part in model.named_modules() if isinstance(part, nn.Conv2d | nn.Linear)]
        assert len([name for name in layers if "downsample" not in name]) == depth
        assert [name for name in layers if "downsample" in name] == ["layer2.0.downsample.0", "layer3.0.downsample.0"]


def test_maps_shrink_where_the_papers_say():
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


LANDMARKS = {
    18: {
        "conv1.weight": (64, 3, 7, 7),
        "bn1.running_var": (64,),
        "bn1.num_batches_tracked": (),
        "layer1.0.conv1.weight": (64, 64, 3, 3),
        "layer1.1.bn2.bias": (64,),
        "layer2.0.conv1.weight": (128, 64, 3, 3),
        "layer2.0.downsample.0.weight": (128, 64, 1, 1),
        "layer2.0.downsample.1.running_mean": (128,),
        "layer4.1.conv2.weight": (512, 512, 3, 3),
        "fc.weight": (1000, 512),
        "fc.bias": (1000,),
    },
    50: {
        "conv1.weight": (64, 3, 7, 7),
        "layer1.0.conv1.weight": (64, 64, 1, 1),
        "layer1.0.conv2.weight": (64, 64, 3, 3),
        "layer1.0.conv3.weight": (256, 64, 1, 1),
        "layer1.0.bn3.weight": (256,),
        "layer1.0.downsample.0.weight": (256, 64, 1, 1),
        "layer1.2.conv1.weight": (64, 256, 1, 1),
        "layer3.5.conv3.weight": (1024, 256, 1, 1),
        "layer4.0.downsample.1.weight": (2048,),
        "layer4.2.conv2.weight": (512, 512, 3, 3),
        "fc.weight": (1000, 2048),
        "fc.bias": (1000,),
    },
}


@pytest.mark.parametrize(("depth", "entries"), [(18, 122), (34, 218), (50, 320), (101, 626)])
def test_resnet_state_dicts_have_torchvisions_names_and_shapes(depth, entries):
    with torch.device("meta"):
        weights = ResNet(depth=depth).build(3, 1000).state_dict()
    assert len(weights) == entries
    landmarks = LANDMARKS.get(depth, {})
    assert {name: tuple(weights[name].shape) for name in landmarks} == landmarks
    assert ("layer1.0.downsample.0.weight" in weights) == (depth >= 50)
    assert "layer1.1.downsample.0.weight" not in weights


def normalized(x, norm):
    """Batch norm in training, by its definition."""
    mean, variance = x.mean((0, 2, 3), keepdim=True), x.var((0, 2, 3), unbiased=False, keepdim=True)
    return (x - mean) / (variance + 1e-5).sqrt() * norm.weight[:, None, None] + norm.bias[:, None, None]


def shuffled(block):
    """The block with batch norms that do something, so that a forgotten one shows."""
    for part in block.modules():
        if isinstance(part, nn.BatchNorm2d):
            nn.init.uniform_(part.weight, 0.5, 1.5)
            nn.init.normal_(part.bias)
    return block


def test_a_basic_block_is_its_formula():
    x = torch.randn(3, 4, 8, 8)
    wider, same = shuffled(BasicBlock(4, 6, stride=2)), shuffled(BasicBlock(4, 4, stride=1))
    for block, stride in ((wider, 2), (same, 1)):
        residual = normalized(F.conv2d(x, block.conv1.weight, stride=stride, padding=1), block.bn1).clamp(min=0)
        residual = normalized(F.conv2d(residual, block.conv2.weight, padding=1), block.bn2)
        straight = x
        if stride == 2:  # a 1x1 convolution with stride 2 looks at every second pixel, and mixes its channels
            mixed = torch.einsum("oi,bihw->bohw", block.downsample[0].weight[:, :, 0, 0], x[:, :, ::2, ::2])
            straight = normalized(mixed, block.downsample[1])
        torch.testing.assert_close(block(x), (residual + straight).clamp(min=0), atol=1e-4, rtol=1e-4)


def test_a_bottleneck_is_its_formula_with_the_stride_in_the_middle():
    x, block = torch.randn(3, 8, 8, 8), shuffled(Bottleneck(8, 3, stride=2))
    residual = normalized(F.conv2d(x, block.conv1.weight), block.bn1).clamp(min=0)
    residual = normalized(F.conv2d(residual, block.conv2.weight, stride=2, padding=1), block.bn2).clamp(min=0)
    residual = normalized(F.conv2d(residual, block.conv3.weight), block.bn3)
    straight = normalized(F.conv2d(x[:, :, ::2, ::2], block.downsample[0].weight), block.downsample[1])
    torch.testing.assert_close(block(x), (residual + straight).clamp(min=0), atol=1e-4, rtol=1e-4)


def test_a_pre_activation_block_is_its_formula_and_the_shortcut_takes_the_activated_input():
    x = torch.randn(2, 4, 6, 6)
    for block in (PreActivationBlock(4, 8, 2), PreActivationBlock(4, 4, 1)):
        active = normalized(x, block.bn1).clamp(min=0)
        stride = block.conv1.stride[0]
        middle = normalized(F.conv2d(active, block.conv1.weight, stride=stride, padding=1), block.bn2).clamp(min=0)
        straight = x if stride == 1 else F.conv2d(active[:, :, ::2, ::2], block.downsample.weight)
        expected = F.conv2d(middle, block.conv2.weight, padding=1) + straight
        torch.testing.assert_close(block(x), expected, atol=1e-4, rtol=1e-4)
    wide = WideResNet(depth=10, width=8).build(3, 10)
    assert not wide.fc.bias.any()
    assert wide.layer1[0].conv2.weight.std().item() == pytest.approx(math.sqrt(2 / (9 * 128)), rel=0.02)


def test_new_weights_are_drawn_as_published():
    cifar = CifarResNet(depth=8).build(3, 10).layer3[0].conv2.weight
    bound = math.sqrt(6 / (9 * 64))  # uniform: the largest is nearly the bound, and none is above
    assert 0.99 * bound < cifar.abs().max() <= bound
    for settings, name in ((ResNet(), "layer2.0.conv1"), (Vgg11(), "trunk.4")):  # 128 out of 64, 3x3
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


def test_mnist_features_point_anywhere_without_a_last_relu_or_in_the_plane():
    images = torch.randn(8, 1, 28, 28)
    centered = (
        MnistNet(last_relu=False).build(1, 10)(images).features
    )  # a batch norm's output, averaged, is 0 on average
    torch.testing.assert_close(centered.mean(0), torch.zeros(32), atol=1e-5, rtol=0)
    assert centered.std() > 0.01
    plane = MnistNet(embed=2).build(1, 10)
    before = plane(images).features
    plane.embed.weight.data.neg_(), plane.embed.bias.data.neg_()
    torch.testing.assert_close(plane(images).features, -before)


def test_a_digit_is_seen_alone_whatever_its_batch():
    model, images = DigitsNet(width=4).build(1, 10), torch.randn(6, 1, 8, 8)
    together = model(images).logits
    torch.testing.assert_close(torch.cat([model(image[None]).logits for image in images]), together)
    assert not list(model.buffers())


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (CifarResNet(depth=57), ["57", "depth=56", "depth=62"]),
        (CifarResNet(depth=2), ["depth 2", "depth=8"]),
        (CifarResNet(depth=18), ["depth=14", "depth=20"]),
        (ResNet(depth=56), ["56", "18, 34, 50, 101", "CifarResNet"]),
        (ResNet(stem="cifar10"), ["'cifar10'", "did you mean 'cifar'"]),
        (Vgg11(widths=(8, 8)), ["8 convolutions", "names 2"]),
        (WideResNet(depth=30), ["30", "depth=28", "depth=34"]),
        (WideResNet(width=0), ["width is 0"]),
    ],
    ids=str,
)
def test_settings_that_cannot_be_built_are_refused_with_what_can(settings, words):
    with pytest.raises(OptionError) as refusal:
        settings.build(3, 10)
    assert all(word in str(refusal.value) for word in words), refusal.value


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
