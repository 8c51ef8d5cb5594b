"""ResNets have torchvision's names, and their blocks are their formulas."""

import pytest
import torch
import torch.nn.functional as F
from _batch_norms import normalized, shuffled
from torch import nn

from opl.experiments.models import CifarResNet, ResNet
from opl.experiments.models.residual import BasicBlock, Bottleneck

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


pytestmark = pytest.mark.usefixtures("one_thread")


def test_basic_block_equals_its_formula():
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


def test_bottleneck_equals_its_formula():
    x, block = torch.randn(3, 8, 8, 8), shuffled(Bottleneck(8, 3, stride=2))
    residual = normalized(F.conv2d(x, block.conv1.weight), block.bn1).clamp(min=0)
    residual = normalized(F.conv2d(residual, block.conv2.weight, stride=2, padding=1), block.bn2).clamp(min=0)
    residual = normalized(F.conv2d(residual, block.conv3.weight), block.bn3)
    straight = normalized(F.conv2d(x[:, :, ::2, ::2], block.downsample[0].weight), block.downsample[1])
    torch.testing.assert_close(block(x), (residual + straight).clamp(min=0), atol=1e-4, rtol=1e-4)


def test_the_depth_counts_the_layers_with_weights():
    for depth in (8, 20, 32, 44, 56, 110):
        with torch.device("meta"):
            model = CifarResNet(depth=depth).build(3, 10)
        layers = [name for name, part in model.named_modules() if isinstance(part, nn.Conv2d | nn.Linear)]
        assert len([name for name in layers if "downsample" not in name]) == depth
        assert [name for name in layers if "downsample" in name] == ["layer2.0.downsample.0", "layer3.0.downsample.0"]
