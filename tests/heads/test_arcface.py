"""ArcFace vs pytorch-metric-learning and closed forms, and where the usual code has no gradient."""

import math

import pytest
import torch
from _head_vectors import SEEDS, assert_trains_as, batch, build, often
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

from _said import refuses
from opl import errors
from opl.heads.arcface import ArcFaceHead, arcface

pytestmark = pytest.mark.filterwarnings("ignore:__array_wrap__:DeprecationWarning")  # of pytorch-metric-learning


@often
@given(SEEDS, st.floats(0, 1.5), st.floats(0.1, 64))
def test_arcface_equals_pytorch_metric_learning(seed, margin, scale):
    losses = pytest.importorskip("pytorch_metric_learning.losses")
    features, weight, labels = batch(seed)
    oracle = losses.ArcFaceLoss(7, 3, margin=math.degrees(margin), scale=scale)
    assert_trains_as(oracle, arcface(features, weight, labels, scale=scale, margin=margin), features, weight, labels)


def test_an_easy_margin_moves_only_targets_within_90_degrees():
    angles = torch.tensor([0.3, 1.5, 1.6, 3.0], dtype=torch.float64)
    features = torch.stack([angles.cos(), angles.sin()], 1)
    logits = arcface(features, torch.eye(2), torch.zeros(4, dtype=torch.long), scale=10.0, margin=0.5, easy=True)
    expected = [10 * math.cos(0.8), 10 * math.cos(2.0), 10 * math.cos(1.6), 10 * math.cos(3.0)]
    assert logits[:, 0].tolist() == pytest.approx(expected)
    assert logits[:, 1].tolist() == pytest.approx((10 * angles.sin()).tolist())


def naive_arcface(features, weight, labels, scale, margin, by_angle):
    """The two usual ways to write it."""
    cosine = F.linear(F.normalize(features), F.normalize(weight))
    if by_angle:
        moved = (cosine.clamp(-1, 1).acos() + margin).cos()
    else:
        moved = cosine * math.cos(margin) - (1 - cosine.square()).clamp(0, 1).sqrt() * math.sin(margin)
    return scale * torch.where(F.one_hot(labels, len(weight)).bool(), moved, cosine)


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("easy", [False, True])
def test_arcface_has_a_gradient_along_a_class_vector_where_the_usual_code_has_none(sign, easy):
    losses = pytest.importorskip("pytorch_metric_learning.losses")
    weight, labels = torch.eye(4), torch.tensor([0, 1, 2])
    features = (2 * sign * torch.eye(4)[:3]).requires_grad_()
    oracle = losses.ArcFaceLoss(4, 4, margin=math.degrees(0.5), scale=8)
    oracle.W = nn.Parameter(torch.eye(4))
    for broken in (
        oracle(features, labels),
        F.cross_entropy(naive_arcface(features, weight, labels, 8.0, 0.5, by_angle=True), labels),
        F.cross_entropy(naive_arcface(features, weight, labels, 8.0, 0.5, by_angle=False), labels),
    ):
        assert not torch.autograd.grad(broken, features)[0].isfinite().all()
    logits = arcface(features, weight, labels, scale=8.0, margin=0.5, easy=easy)
    past_pi = -1.0 if easy else -1 - 0.5 * math.sin(0.5)
    target = 8 * (math.cos(0.5) if sign > 0 else past_pi)
    torch.testing.assert_close(logits, torch.where(torch.eye(4)[:3] > 0, target, 0.0), atol=1e-5, rtol=1e-5)
    (gradient,) = torch.autograd.grad(F.cross_entropy(logits, labels), features)
    share = 1 / (3 + math.exp(target))  # of each other class; its vector is at a right angle, and |f| is 2
    expected = torch.full((3, 4), share * 8 / 2 / 3) * (1 - torch.eye(4)[:3])
    torch.testing.assert_close(gradient, expected)


@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
def test_arcface_equals_the_closed_form_close_to_a_class_vector(kind):
    angles = torch.linspace(0.01, 0.1, 50, dtype=kind, requires_grad=True)
    features = 3 * torch.stack([angles.cos(), angles.sin()], 1)
    target = arcface(features, torch.eye(2, dtype=kind), torch.zeros(50, dtype=torch.long), scale=64.0)[:, 0]
    (slope,) = torch.autograd.grad(target.sum(), angles)
    exact = angles.detach().double()
    digits = {torch.float32: (1e-5, 2e-3), torch.float64: (1e-12, 1e-10)}[kind]
    torch.testing.assert_close(target.double(), 64 * (exact + 0.5).cos(), rtol=digits[0], atol=0)
    torch.testing.assert_close(slope.double(), -64 * (exact + 0.5).sin(), rtol=digits[1], atol=0)


def test_a_target_at_any_angle_never_gains_by_turning_away():
    angles = torch.linspace(0.01, math.pi - 0.01, 2000, dtype=torch.float64)
    features = torch.stack([angles.cos(), angles.sin()], 1)
    target = arcface(features, torch.eye(2), torch.zeros(2000, dtype=torch.long), margin=0.7)[:, 0]
    assert (target.diff() < 0).all()


BAD = {
    "a margin of degrees": (build(ArcFaceHead, margin=28.6), errors.OptionError, ["28.6", "radians"]),
    "a negative angle": (build(ArcFaceHead, margin=-0.1), errors.OptionError, ["-0.1", "at least 0"]),
    "ArcFace's as well": (build(ArcFaceHead, warmup=-1), errors.OptionError, ["warmup is -1", "at least 0"]),
    "a negative scale": (build(ArcFaceHead, scale=-64.0), errors.OptionError, ["scale is -64.0"]),
}

test_invalid_input_is_refused_in_one_sentence = refuses(BAD)
