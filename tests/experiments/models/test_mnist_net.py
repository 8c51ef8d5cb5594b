"""The network for MNIST and where its features may point."""

import pytest
import torch

from opl.experiments.models import MnistNet

pytestmark = pytest.mark.usefixtures("one_thread")


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
