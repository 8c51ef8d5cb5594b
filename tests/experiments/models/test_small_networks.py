"""The small networks for MNIST and the digits."""

import pytest
import torch

from opl.experiments.models import DigitsNet, MnistNet

pytestmark = pytest.mark.usefixtures("one_thread")


def test_embedded_features_have_both_signs():
    images = torch.randn(8, 1, 28, 28)
    plane = MnistNet(embed=2).build(1, 10)
    before = plane(images).features
    plane.embed.weight.data.neg_(), plane.embed.bias.data.neg_()
    torch.testing.assert_close(plane(images).features, -before)


def test_digits_do_not_depend_on_their_batch():
    model, images = DigitsNet(width=4).build(1, 10), torch.randn(6, 1, 8, 8)
    together = model(images).logits
    torch.testing.assert_close(torch.cat([model(image[None]).logits for image in images]), together)
    assert not list(model.buffers())
