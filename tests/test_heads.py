"""Classifier heads against another library, loops and closed forms; and the numbers that break the usual code."""

import math
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

from _said import says
from opl import errors
from opl.heads.a_softmax import ASoftmaxHead, a_softmax, anneal_blend, monotone_cosine
from opl.heads.arcface import ArcFaceHead, arcface
from opl.heads.cosface import CosFaceHead, cosface
from opl.heads.lgm import LGMHead, gaussian, unlikelihood
from opl.heads.linear import LinearHead
from opl.heads.rbf import RBFHead, rbf

often = settings(max_examples=30, derandomize="CI" in os.environ, deadline=None)
SEEDS = st.integers(0, 2**31)
pytestmark = pytest.mark.filterwarnings("ignore:__array_wrap__:DeprecationWarning")  # of pytorch-metric-learning


def batch(seed: int = 0, rows: int = 12, dim: int = 3, classes: int = 7):
    """Features, class vectors and labels in float64; three dimensions hold every angle from 0 to pi."""
    chance = torch.Generator().manual_seed(seed)
    features = 2 * torch.randn(rows, dim, dtype=torch.float64, generator=chance)
    vectors = torch.randn(classes, dim, dtype=torch.float64, generator=chance)
    return features.requires_grad_(), vectors.requires_grad_(), torch.randint(classes, (rows,), generator=chance)


def assert_trains_as(oracle, logits, features, weight, labels):
    """The same loss, and the same gradient to features and class vectors, as a loss of pytorch-metric-learning."""
    oracle.W = nn.Parameter(weight.detach().T.clone())
    theirs = oracle(features, labels)
    ours = F.cross_entropy(logits, labels)
    torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)
    to_features, to_weight = torch.autograd.grad(theirs, (features, oracle.W))
    got = torch.autograd.grad(ours, (features, weight))
    torch.testing.assert_close(got, (to_features, to_weight.T), rtol=1e-7, atol=1e-9)


# Against pytorch-metric-learning


@often
@given(SEEDS, st.floats(0, 0.9), st.floats(0.1, 64))
def test_cosface_equals_pytorch_metric_learning(seed, margin, scale):
    losses = pytest.importorskip("pytorch_metric_learning.losses")
    features, weight, labels = batch(seed)
    oracle = losses.CosFaceLoss(7, 3, margin=margin, scale=scale)
    assert_trains_as(oracle, cosface(features, weight, labels, scale=scale, margin=margin), features, weight, labels)


@often
@given(SEEDS, st.floats(0, 1.5), st.floats(0.1, 64))
def test_arcface_equals_pytorch_metric_learning(seed, margin, scale):
    losses = pytest.importorskip("pytorch_metric_learning.losses")
    features, weight, labels = batch(seed)
    oracle = losses.ArcFaceLoss(7, 3, margin=math.degrees(margin), scale=scale)
    assert_trains_as(oracle, arcface(features, weight, labels, scale=scale, margin=margin), features, weight, labels)


@often
@given(SEEDS, st.integers(1, 5))
def test_a_softmax_without_a_blend_equals_pytorch_metric_learning(seed, margin):
    losses = pytest.importorskip("pytorch_metric_learning.losses")
    features, weight, labels = batch(seed)
    oracle = losses.SphereFaceLoss(7, 3, margin=margin, scale=1)
    assert_trains_as(oracle, a_softmax(features, weight, labels, margin=margin), features, weight, labels)


def test_the_heads_ask_their_own_formula_with_their_own_settings():
    losses = pytest.importorskip("pytorch_metric_learning.losses")
    features, _, labels = batch()
    for head, oracle in (
        (CosFaceHead(3, 7, scale=20.0, margin=0.2), losses.CosFaceLoss(7, 3, margin=0.2, scale=20)),
        (ArcFaceHead(3, 7, scale=20.0, margin=0.2), losses.ArcFaceLoss(7, 3, margin=math.degrees(0.2), scale=20)),
        (ASoftmaxHead(3, 7, margin=3, base=1e-300, floor=0.0), losses.SphereFaceLoss(7, 3, margin=3)),
    ):
        head = head.double()
        assert_trains_as(oracle, head(features, labels), features, head.weight, labels)


@pytest.mark.parametrize("kind", [CosFaceHead, ArcFaceHead])
def test_the_margin_of_the_cosine_heads_grows_over_the_warm_up(kind):
    head = kind(feature_dim=2, num_classes=2, scale=10.0, margin=0.4, warmup=4)
    head.weight.data = torch.eye(2)
    features, labels = torch.tensor([[0.0, 2.0]]), torch.tensor([0])  # a right angle
    margins = [0, 0.1, 0.2, 0.3, 0.4, 0.4]
    expected = [-10 * (math.sin(margin) if kind is ArcFaceHead else margin) for margin in margins]
    got = []
    for _ in margins:
        got.append(head(features, labels)[0, 0].item())
        assert head.eval()(features, labels)[0, 0].item() == 0  # no margin, and not counted
        head.train()(features)
    assert got == pytest.approx(expected, abs=1e-6)
    head.set_step(1)
    assert head(features, labels)[0].tolist() == pytest.approx([expected[1], 10])
    assert head.step == 2


# ArcFace


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


# A-Softmax


@pytest.mark.parametrize("margin", [1, 2, 3, 4, 5])
def test_psi_is_the_multiple_angle_folded_down(margin):
    cosine = np.cos(np.linspace(0, np.pi, 2001))
    angle = np.arccos(cosine)
    k = np.minimum(np.floor(margin * angle / np.pi), margin - 1)
    expected = (-1) ** k * np.cos(margin * angle) - 2 * k
    got = monotone_cosine(torch.from_numpy(cosine), margin).numpy()
    np.testing.assert_allclose(got, expected, atol=1e-12)
    assert (np.diff(got) < 0).all()
    assert got[[0, -1]] == pytest.approx([1, 1 - 2 * margin])


def test_the_blend_falls_from_1000_to_5_in_1659_steps():
    steps = torch.tensor([0, 1, 100, 1000, 1658, 1659, 10**6])
    blend = anneal_blend(steps, base=1000.0, gamma=0.12, power=1.0, floor=5.0)
    assert blend.tolist() == pytest.approx([1000, 892.857143, 76.923077, 8.264463, 5.001000, 5, 5], rel=1e-6)


def test_a_softmax_lets_its_margin_in_call_by_call():
    head = ASoftmaxHead(feature_dim=2, num_classes=2, margin=2)
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


# LGM


def half_squares(features, centers):
    rows = [[((f - c) ** 2).sum() / 2 for c in centers] for f in features]
    return torch.stack([torch.stack(row) for row in rows])


@pytest.mark.parametrize("margin", [0.0, 0.1, 1.0])
def test_lgm_with_unit_variance_equals_a_double_loop(margin):
    features, means, labels = batch()
    distances = half_squares(features, means)
    expected = F.cross_entropy(-distances * (1 + margin * F.one_hot(labels, 7).double()), labels)
    got = F.cross_entropy(gaussian(features, means, labels, margin=margin), labels)
    torch.testing.assert_close(got, expected, rtol=1e-12, atol=1e-12)
    gradients = [torch.autograd.grad(loss, (features, means)) for loss in (got, expected)]
    torch.testing.assert_close(*gradients, rtol=1e-9, atol=1e-12)


def log_density(features, means, log_variances):
    """(B, C) log-densities of diagonal Gaussians without the constant that all share."""
    normal = torch.distributions.Normal(means, (log_variances / 2).exp())
    return normal.log_prob(features[:, None]).sum(2) + math.log(2 * math.pi) / 2 * features.shape[1]


def test_lgm_with_learned_variances_equals_the_densities_of_torch():
    features, means, labels = batch()
    log_variances = torch.randn_like(means).requires_grad_()
    at = (features, means, log_variances)
    got, expected = gaussian(features, means, log_variances=log_variances), log_density(*at)
    torch.testing.assert_close(got, expected, rtol=1e-12, atol=1e-12)
    gradients = [torch.autograd.grad(F.cross_entropy(logits, labels), at) for logits in (got, expected)]
    torch.testing.assert_close(*gradients, rtol=1e-9, atol=1e-12)
    # The margin is on the distance alone.
    log_half = log_variances.sum(1) / 2
    with_margin = expected + 0.3 * F.one_hot(labels, 7).double() * (expected + log_half)
    got = gaussian(features, means, labels, log_variances=log_variances, margin=0.3)
    torch.testing.assert_close(got, with_margin, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("learned", [False, True])
def test_the_penalty_of_lgm_equals_a_loop(learned):
    features, means, labels = batch()
    log_variances = torch.randn_like(means) if learned else torch.zeros_like(means)
    expected = 0.0
    for f, y in zip(features.tolist(), labels.tolist(), strict=True):
        for value, mean, log_variance in zip(f, means[y].tolist(), log_variances[y].tolist(), strict=True):
            expected += ((value - mean) ** 2 / math.exp(log_variance) + log_variance) / 2 / len(features)
    got = unlikelihood(features, means, labels, log_variances=log_variances if learned else None)
    assert got.item() == pytest.approx(expected, rel=1e-12)
    head = LGMHead(feature_dim=3, num_classes=7, learn_variances=learned).double()
    head.load_state_dict({"means": means, "log_variances": log_variances, "step": head.step}, strict=learned)
    assert head.penalty(features, labels).item() == pytest.approx(expected, rel=1e-12)


def test_the_margin_of_lgm_doubles_up_to_its_cap():
    head = LGMHead(feature_dim=2, num_classes=2, double_every=2)
    head.means.data.zero_()
    features, labels = torch.tensor([[2.0, 0.0]]), torch.tensor([1])  # d = 2
    targets = [head(features, labels)[0, 1].item() for _ in range(7)]
    assert targets == pytest.approx([-2.2, -2.2, -2.4, -2.4, -2.6, -2.6, -2.6])
    assert head.eval()(features, labels).tolist() == [[-2, -2]]
    head.train().set_step(2)
    assert head(features, labels)[0].tolist() == pytest.approx([-2, -2.4])


@pytest.mark.parametrize("learned", [False, True])
def test_distances_keep_their_digits_far_from_the_origin(learned):
    features, means = 1000 + torch.randn(20, 64), 1000 + torch.randn(7, 64)
    log_variances = torch.randn(7, 64) if learned else None
    exact = [value.double().requires_grad_() for value in (features, means)]
    variances = torch.ones(7, 64) if log_variances is None else log_variances.double().exp()
    squares = ((exact[0][:, None] - exact[1]) ** 2 / variances).sum(2)
    expansion = features.square().sum(1)[:, None] - 2 * features @ means.T + means.square().sum(1)
    if not learned:
        assert (expansion - squares).abs().max() > 1  # of about 128
    features.requires_grad_(), means.requires_grad_()
    determinants = 0.0 if log_variances is None else log_variances.double().sum(1) / 2
    got = gaussian(features, means, log_variances=log_variances)
    torch.testing.assert_close(got.double(), -squares / 2 - determinants, rtol=1e-6, atol=1e-5)
    labels = torch.arange(20) % 7
    expected = torch.autograd.grad(F.cross_entropy(-squares / 2 - determinants, labels), exact)
    found = torch.autograd.grad(F.cross_entropy(got, labels), (features, means))
    torch.testing.assert_close([g.double() for g in found], list(expected), rtol=1e-3, atol=1e-5)


# RBF


def test_rbf_equals_a_double_loop():
    features, prototypes, labels = batch()
    expected = 9 * (-2 * half_squares(features, prototypes) / 4).exp()
    got = rbf(features, prototypes, scale=9.0, gamma=4.0)
    torch.testing.assert_close(got, expected, rtol=1e-12, atol=1e-12)
    gradients = [
        torch.autograd.grad(F.cross_entropy(logits, labels), (features, prototypes)) for logits in (got, expected)
    ]
    torch.testing.assert_close(*gradients, rtol=1e-9, atol=1e-12)
    assert RBFHead(feature_dim=64, num_classes=100).gamma == 128


def test_rbf_starts_alive_on_real_images_where_the_released_width_is_dead(tmp_path, monkeypatch):
    from opl.experiments.data import Batches, Cifar100
    from opl.experiments.models import CifarResNet

    root = Path(os.environ.get("OPL_DATA", ""), "cifar100")
    if not os.environ.get("OPL_DATA") or not root.is_dir():
        pytest.skip("OPL_DATA names no folder with 'cifar100'")
    monkeypatch.setenv("OPL_CACHE", str(tmp_path))
    data = Cifar100(root=str(root))
    rows = Batches(data.load(0).train, 32, seed=0, augment=(), mean=data.mean, std=data.std, device=torch.device("cpu"))
    images, labels = next(iter(rows.epoch(0)))[:2]
    model = CifarResNet(56).build(3, 100)
    features, logits = model(images)

    def pull(logits):
        loss = F.cross_entropy(logits, labels)
        return torch.autograd.grad(loss, model.conv1.weight, retain_graph=True)[0].norm().item()

    released, ours = RBFHead(64, 100, scale=4.0, gamma=2.0), RBFHead(64, 100)
    assert pull(4 * (-torch.cdist(features, released.prototypes).square() / 2).exp()) < 1e-12
    assert pull(released(features)) < 1e-12
    assert pull(ours(features)) > 1e-2 * pull(logits)


# The linear head


def test_a_linear_head_is_a_linear_layer():
    torch.manual_seed(3)
    layer = nn.Linear(6, 4)
    torch.manual_seed(3)
    head = LinearHead(feature_dim=6, num_classes=4)
    assert {name: tuple(value.shape) for name, value in head.state_dict().items()} == {"weight": (4, 6), "bias": (4,)}
    features = torch.randn(5, 6)
    assert torch.equal(head(features), layer(features))
    assert torch.equal(head(features, torch.tensor([0, 1, 2, 3, 0])), layer(features))
    assert head.param_options == {}


def test_a_prior_starts_every_sigmoid_at_one_in_the_number_of_classes():
    head = LinearHead(feature_dim=64, num_classes=100, prior=True)
    assert head.bias.tolist() == pytest.approx([-4.595120] * 100)
    assert head(torch.zeros(1, 64)).sigmoid()[0].tolist() == pytest.approx([0.01] * 100)
    assert head.param_options == {"bias": {"weight_decay": 0.0}}
    assert LinearHead(feature_dim=2, num_classes=1, prior=True).bias.tolist() == [0]


# What they share

HEADS = {
    "a-softmax": lambda: ASoftmaxHead(5, 9, base=1e-3, floor=0.0),
    "arcface": lambda: ArcFaceHead(5, 9),
    "easy arcface": lambda: ArcFaceHead(5, 9, easy=True, margin=0.1),
    "cosface": lambda: CosFaceHead(5, 9),
    "lgm": lambda: LGMHead(5, 9),
    "lgm with variances": lambda: LGMHead(5, 9, learn_variances=True),
    "linear": lambda: LinearHead(5, 9),
    "rbf": lambda: RBFHead(5, 9),
}


@pytest.mark.parametrize("name", HEADS)
def test_the_margin_needs_labels_and_training_mode(name):
    head, features, labels = HEADS[name](), torch.randn(30, 5), torch.randint(9, (30,))
    plain = head(features)
    assert plain.shape == (30, 9)
    assert torch.equal(head.eval()(features, labels), plain)
    assert torch.equal(head(features), plain)
    moved = head.train()(features, labels)
    target = F.one_hot(labels, 9).bool()
    assert torch.equal(moved[~target], plain[~target])
    if name in ("linear", "rbf"):
        assert torch.equal(moved, plain)
    elif name == "easy arcface":
        assert torch.equal(moved[target] != plain[target], plain[target] > 0)
    else:
        assert (moved[target] < plain[target]).all()


@pytest.mark.parametrize("name", HEADS)
def test_at_test_time_the_nearest_class_wins(name):
    head, features = HEADS[name]().eval(), torch.randn(200, 5)
    if name == "linear":
        wins = torch.stack([head.weight @ row + head.bias for row in features]).argmax(1)
    elif name in ("lgm", "lgm with variances", "rbf"):
        wins = torch.cdist(features, head.means if "lgm" in name else head.prototypes).argmin(1)
    else:
        wins = F.cosine_similarity(features[:, None], head.weight, dim=2).argmax(1)
    assert torch.equal(head(features).argmax(1), wins)


@pytest.mark.parametrize("name", HEADS)
def test_a_half_precision_call_leaves_the_weights_alone(name):
    head, features, labels = HEADS[name](), torch.randn(30, 5).half(), torch.randint(9, (30,))
    before = {key: value.clone() for key, value in head.state_dict().items() if key != "step"}
    got = head(features, labels)
    assert got.dtype == torch.float32
    with torch.autocast("cpu", torch.bfloat16):
        head(features.float(), labels)
    for key, value in before.items():
        assert torch.equal(head.state_dict()[key], value)
        assert head.state_dict()[key].dtype == torch.float32
    if name not in ("a-softmax", "lgm", "lgm with variances"):  # their margin has moved on
        assert torch.equal(head(features.float(), labels), got)


def test_a_half_precision_call_of_pytorch_metric_learning_does_not():
    losses = pytest.importorskip("pytorch_metric_learning.losses")
    loss = losses.CosFaceLoss(9, 5)
    loss(torch.randn(30, 5).half(), torch.randint(9, (30,)))
    assert loss.W.dtype == torch.float16


@pytest.mark.parametrize("name", HEADS)
def test_columns_of_labels_and_pooled_maps_are_the_same_batch(name):
    features, labels = torch.randn(30, 5), torch.randint(9, (30,))
    torch.manual_seed(1)
    plain = HEADS[name]()(features, labels)
    torch.manual_seed(1)
    assert torch.equal(HEADS[name]()(features[:, :, None, None], labels[:, None].int()), plain)


X, Y = torch.randn(4, 5), torch.tensor([0, 1, 2, 8])
SOFT = torch.full((4, 9), 1 / 9)


def call(head, *arguments):
    return lambda: head(*arguments)


def build(kind, **options):
    return lambda: kind(5, 9, **options)


BAD = {
    "a margin of degrees": (build(ArcFaceHead, margin=28.6), errors.OptionError, ["28.6", "radians"]),
    "a negative angle": (build(ArcFaceHead, margin=-0.1), errors.OptionError, ["-0.1", "from 0"]),
    "half an angle": (build(ASoftmaxHead, margin=1.5), errors.OptionError, ["1.5", "whole number"]),
    "no angle": (build(ASoftmaxHead, margin=0), errors.OptionError, ["margin is 0", "from 1"]),
    "an angle without a number": (build(ASoftmaxHead, margin=float("nan")), errors.OptionError, ["margin", "whole"]),
    "a blend of 0": (build(ASoftmaxHead, base=0.0), errors.OptionError, ["base is 0.0", "above 0"]),
    "a warm-up before the start": (build(CosFaceHead, warmup=-1), errors.OptionError, ["warmup is -1", "from 0"]),
    "ArcFace's as well": (build(ArcFaceHead, warmup=-1), errors.OptionError, ["warmup is -1", "from 0"]),
    "no scale": (build(CosFaceHead, scale=0.0), errors.OptionError, ["scale is 0.0", "above 0"]),
    "a negative scale": (build(ArcFaceHead, scale=-64.0), errors.OptionError, ["scale is -64.0"]),
    "a scale without end": (build(RBFHead, scale=float("inf")), errors.OptionError, ["scale is inf", "finite"]),
    "no width": (build(RBFHead, gamma=0.0), errors.OptionError, ["gamma is 0.0"]),
    "a negative distance margin": (build(LGMHead, margin=-0.3), errors.OptionError, ["-0.3", "from 0"]),
    "doubling every 0 steps": (build(LGMHead, double_every=0), errors.OptionError, ["double_every 0", "from 1"]),
    "a margin from nothing": (build(LGMHead, start=0.0), errors.OptionError, ["start is 0.0"]),
    "features of another width": (call(CosFaceHead(6, 9), X, Y), errors.OptionError, ["5 numbers", "built for 6"]),
    "a class too many": (call(CosFaceHead(5, 8), X, Y), errors.LabelError, ["label 8", "8 classes", "num_classes=9"]),
    "a negative label": (call(ArcFaceHead(5, 9), X, Y - 1), errors.LabelError, ["label -1", "(0 to 8)"]),
    "soft labels": (call(LGMHead(5, 9), X, SOFT), errors.LabelError, ["soft labels", "argmax(1)"]),
    "soft labels in the penalty": (
        lambda: LGMHead(5, 9).penalty(X, SOFT),
        errors.LabelError,
        ["soft labels", "argmax(1)"],
    ),
    "too few labels": (call(RBFHead(5, 9), X, Y[:3]), errors.LabelError, ["3 labels for 4"]),
    "a feature map": (call(LinearHead(5, 9), torch.randn(4, 5, 8, 8)), errors.FeatureError, ["(4, 5, 8, 8)", "mean"]),
    "integers": (call(LinearHead(5, 9), X.long()), errors.FeatureError, ["int64", "float()"]),
}


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_used_gets_its_sentence(case):
    says(*BAD[case])
