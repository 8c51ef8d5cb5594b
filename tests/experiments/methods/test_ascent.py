"""The ascent stays in the ball and the pixel range, and equals its closed form."""

import math

import pytest
import torch
from _attacked_net import SIDE, TinyNet, distance, small_batch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from opl.errors import OptionError
from opl.experiments.methods.ascent import ascend, random_point


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(["linf", "l2"]),
    st.floats(0.001, 3.0),
    st.floats(0.001, 2.0),
    st.integers(1, 4),
    st.booleans(),
    st.integers(0, 10_000),
)
def test_adversarial_images_stay_in_the_ball_and_in_the_pixel_range(norm, eps, step, steps, random_start, seed):
    model, batch = TinyNet(seed), small_batch(4, torch.float32, seed)
    model.float()
    before = batch.images.clone()
    loss = lambda moved: F.cross_entropy(model(moved).logits, batch.labels, reduction="sum")  # noqa: E731
    start = random_point(batch.images, eps, norm) if random_start else None
    moved = ascend(loss, batch.images, eps=eps, step=step, steps=steps, norm=norm, start=start)
    assert distance(moved, before, norm) <= eps * (1 + 1e-5) + 1e-6
    assert moved.min() >= 0
    assert moved.max() <= 1
    assert not moved.requires_grad
    assert torch.equal(batch.images, before)
    assert moved.untyped_storage().data_ptr() != batch.images.untyped_storage().data_ptr()


def test_step_on_a_linear_loss_equals_the_closed_form():
    images, weights = small_batch().images, torch.randn(6, 2, SIDE, SIDE, dtype=torch.float64)
    moved = ascend(lambda x: (x * weights).sum(), images, eps=0.1, step=0.1, steps=1)
    torch.testing.assert_close(moved, (images + 0.1 * weights.sign()).clamp(0, 1))
    far = ascend(lambda x: (x * weights).sum(), images, eps=0.1, step=0.04, steps=5)
    torch.testing.assert_close(far, (images + 0.1 * weights.sign()).clamp(0, 1))
    inner = images.clamp(0.4, 0.6)
    along = ascend(lambda x: (x * weights).sum(), inner, eps=0.2, step=0.15, steps=3, norm="l2")
    lengths = weights.flatten(1).norm(dim=1)[:, None, None, None]
    torch.testing.assert_close(along, inner + 0.2 * weights / lengths)


def test_zero_gradient_changes_nothing():
    images = small_batch().images
    for norm in ("linf", "l2"):
        moved = ascend(lambda x: (0 * x).sum(), images, eps=0.1, step=0.1, steps=2, norm=norm)
        torch.testing.assert_close(moved, images, rtol=0, atol=1e-15)


def test_random_starts_are_uniform_in_the_ball():
    images = torch.full((4000, 1, 2, 1), 0.5, dtype=torch.float64)
    square = random_point(images, 0.3, "linf", torch.Generator().manual_seed(0)) - images
    assert square.abs().max() <= 0.3
    assert square.square().mean().item() == pytest.approx(0.3**2 / 3, rel=0.05)
    disc = (random_point(images, 0.3, "l2", torch.Generator().manual_seed(0)) - images).flatten(1).norm(dim=1)
    assert disc.max() <= 0.3
    assert (disc < 0.3 / math.sqrt(2)).double().mean().item() == pytest.approx(0.5, abs=0.03)  # half of the area


def test_normalized_images_are_refused():
    images = small_batch().images
    with pytest.raises(OptionError, match=r"-1.* to .*normalize='model'"):
        ascend(lambda x: x.sum(), 2 * images - 1, eps=0.1, step=0.1, steps=1)
