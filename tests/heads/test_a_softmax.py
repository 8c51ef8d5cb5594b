"""A-Softmax vs pytorch-metric-learning, its folded angle, and how its margin is let in."""

import numpy as np
import pytest
import torch
from _head_vectors import SEEDS, assert_trains_as, batch, build, often
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

from _said import refuses
from opl import errors
from opl.heads.a_softmax import ASoftmaxHead, a_softmax, anneal_blend, monotone_cosine

pytestmark = pytest.mark.filterwarnings("ignore:__array_wrap__:DeprecationWarning")  # of pytorch-metric-learning


@often
@given(SEEDS, st.integers(1, 5))
def test_a_softmax_without_a_blend_equals_pytorch_metric_learning(seed, margin):
    losses = pytest.importorskip("pytorch_metric_learning.losses")
    features, weight, labels = batch(seed)
    oracle = losses.SphereFaceLoss(7, 3, margin=margin, scale=1)
    assert_trains_as(oracle, a_softmax(features, weight, labels, margin=margin), features, weight, labels)


@pytest.mark.parametrize("margin", [1, 2, 3, 4, 5])
def test_psi_is_the_multiple_angle_folded_down(margin):
    cosine = np.cos(np.linspace(0, np.pi, 2001))
    angle = np.arccos(cosine)
    k = np.minimum(np.floor(margin * angle / np.pi), margin - 1)
    expected = (-1) ** k * np.cos(margin * angle) - 2 * k
    got = monotone_cosine(torch.from_numpy(cosine), margin=margin).numpy()
    np.testing.assert_allclose(got, expected, atol=1e-12)
    assert (np.diff(got) < 0).all()
    assert got[[0, -1]] == pytest.approx([1, 1 - 2 * margin])


def test_the_blend_falls_from_1000_to_5_in_1659_steps():
    steps = torch.tensor([0, 1, 100, 1000, 1658, 1659, 10**6])
    blend = anneal_blend(steps, base=1000.0, gamma=0.12, power=1.0, floor=5.0)
    assert blend.tolist() == pytest.approx([1000, 892.857143, 76.923077, 8.264463, 5.001000, 5, 5], rel=1e-6)


def test_the_margin_of_a_softmax_grows_with_each_training_call():
    head = ASoftmaxHead(2, num_classes=2, margin=2)
    head.weight.data = torch.eye(2)
    features, labels = torch.tensor([[0.0, 2.0]]), torch.tensor([0])  # cos = 0, so psi = cos(pi) = -1
    assert head(features, labels)[0, 0].item() == pytest.approx(-2 / 1001)
    assert head(features, labels)[0, 0].item() == pytest.approx(-2 / 893.857143)
    for step, blend in ((1000, 8.264463), (10_000, 5)):
        head.set_step(step)
        assert head(features, labels)[0].tolist() == pytest.approx([-2 / (1 + blend), 2])
    assert head.step == 10_001
    head.eval()(features, labels)
    head.train()(features)
    assert head.step == 10_001  # only training calls with labels have a margin to let in


def test_a_huge_blend_is_no_margin():
    features, weight, labels = batch()
    plain = features.norm(dim=1)[:, None] * F.cosine_similarity(features[:, None], weight[None], dim=2)
    torch.testing.assert_close(a_softmax(features, weight, labels, blend=1e9), plain, rtol=1e-7, atol=1e-7)
    torch.testing.assert_close(a_softmax(features, weight), plain, rtol=1e-12, atol=1e-12)


BAD = {
    "half an angle": (build(ASoftmaxHead, margin=1.5), errors.OptionError, ["1.5", "integer"]),
    "no angle": (build(ASoftmaxHead, margin=0), errors.OptionError, ["margin is 0", "at least 1"]),
    "an angle without a number": (build(ASoftmaxHead, margin=float("nan")), errors.OptionError, ["margin", "integer"]),
    "a blend of 0": (build(ASoftmaxHead, base=0.0), errors.OptionError, ["base is 0.0", "above 0"]),
}

test_invalid_input_is_refused_in_one_sentence = refuses(BAD)
