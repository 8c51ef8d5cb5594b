"""The network for MNIST and where its features may point."""

import pytest
import torch

from opl.experiments.models import MnistNet

pytestmark = pytest.mark.usefixtures("one_thread")


def test_embedded_features_have_both_signs():
    images = torch.randn(8, 1, 28, 28)
    plane = MnistNet(embed=2).build(1, 10)
    before = plane(images).features
    plane.embed.weight.data.neg_(), plane.embed.bias.data.neg_()
    torch.testing.assert_close(plane(images).features, -before)
