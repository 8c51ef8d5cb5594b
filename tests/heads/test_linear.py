"""The linear head vs a linear layer, and its prior."""

import pytest
import torch
from torch import nn

from opl.heads.linear import LinearHead


def test_a_linear_head_is_a_linear_layer():
    torch.manual_seed(3)
    layer = nn.Linear(6, 4)
    torch.manual_seed(3)
    head = LinearHead(6, num_classes=4)
    assert {name: tuple(value.shape) for name, value in head.state_dict().items()} == {"weight": (4, 6), "bias": (4,)}
    features = torch.randn(5, 6)
    assert torch.equal(head(features), layer(features))
    assert torch.equal(head(features, torch.tensor([0, 1, 2, 3, 0])), layer(features))
    assert head.param_options == {}


def test_a_prior_initializes_every_sigmoid_to_one_over_the_number_of_classes():
    head = LinearHead(64, num_classes=100, prior=True)
    assert head.bias.tolist() == pytest.approx([-4.595120] * 100)
    assert head(torch.zeros(1, 64)).sigmoid()[0].tolist() == pytest.approx([0.01] * 100)
    assert head.param_options == {"bias": {"weight_decay": 0.0}}
    assert LinearHead(2, num_classes=1, prior=True).bias.tolist() == [0]
