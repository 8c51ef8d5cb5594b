"""The network for the digits of scikit-learn."""

import pytest
import torch

from opl.experiments.models import DigitsNet

pytestmark = pytest.mark.usefixtures("one_thread")


def test_a_digit_is_seen_alone_whatever_its_batch():
    model, images = DigitsNet(width=4).build(1, 10), torch.randn(6, 1, 8, 8)
    together = model(images).logits
    torch.testing.assert_close(torch.cat([model(image[None]).logits for image in images]), together)
    assert not list(model.buffers())
