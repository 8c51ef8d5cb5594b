"""Normalization as a part of the network."""

from dataclasses import replace

import pytest
import torch

from opl.errors import OptionError
from opl.experiments import paper
from opl.experiments.models import Standardize
from opl.experiments.models.madry_resnet import StandardizeEach
from opl.experiments.training.build import build_model

DIGITS = replace(paper.recipe("digits-ce", "small"), epochs=2)


def test_normalization_inside_equals_normalization_outside():
    inside, outside = build_model(replace(DIGITS, normalize="model")), build_model(DIGITS)
    pixels = torch.rand(5, 1, 8, 8)
    mean, std = DIGITS.data.mean[0], DIGITS.data.std[0]
    torch.testing.assert_close(inside(pixels).logits, outside((pixels - mean) / std).logits)
    assert {*inside.state_dict()} - {*outside.state_dict()} == {"standardize.mean", "standardize.std"}
    plain = build_model(replace(DIGITS, normalize="none"))
    assert torch.equal(plain(pixels).logits, outside(pixels).logits)
    with pytest.raises(OptionError, match="one number per channel"):
        Standardize((0.5,), (0.0,))


def test_each_image_is_normalized_by_its_mean_and_std():
    images = torch.rand(4, 3, 5, 6, dtype=torch.float64)
    images[3] = 0.25
    images.requires_grad_()
    result = StandardizeEach()(images)
    for image, normalized in zip(images[:3], result[:3], strict=True):
        values = image.flatten().tolist()
        mean = sum(values) / 90
        std = (sum((value - mean) ** 2 for value in values) / 90) ** 0.5
        torch.testing.assert_close(normalized, (image - mean) / std)
    assert not result[3].any()
    result.square().sum().backward()
    assert images.grad.isfinite().all()
    assert StandardizeEach()(images[:0]).shape == (0, 3, 5, 6)
