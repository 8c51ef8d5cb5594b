"""The block of wide ResNets is its formula."""

import math

import pytest
import torch
import torch.nn.functional as F
from _batch_norms import normalized

from opl.experiments.models import WideResNet
from opl.experiments.models.wide_resnet import PreActivationBlock

pytestmark = pytest.mark.usefixtures("one_thread")


def test_pre_activation_block_equals_its_formula():
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
