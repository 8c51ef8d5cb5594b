"""The ResNets for CIFAR."""

import torch
from torch import nn

from opl.experiments.models import CifarResNet


def test_the_depth_counts_the_layers_with_weights():
    for depth in (8, 20, 32, 44, 56, 110):
        with torch.device("meta"):
            model = CifarResNet(depth=depth).build(3, 10)
        layers = [name for name, part in model.named_modules() if isinstance(part, nn.Conv2d | nn.Linear)]
        assert len([name for name in layers if "downsample" not in name]) == depth
        assert [name for name in layers if "downsample" in name] == ["layer2.0.downsample.0", "layer3.0.downsample.0"]
