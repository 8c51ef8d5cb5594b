"""The ResNets for photographs have torchvision's names and shapes."""

import pytest
import torch

from opl.experiments.models import ResNet

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
