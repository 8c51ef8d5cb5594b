"""Residual blocks are their formulas."""

import pytest
import torch
import torch.nn.functional as F
from _batch_norms import normalized, shuffled

from opl.experiments.models.residual import BasicBlock, Bottleneck

pytestmark = pytest.mark.usefixtures("one_thread")


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
