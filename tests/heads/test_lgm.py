"""LGM vs loops and the densities of torch, its penalty, its margin and its digits."""

import math

import pytest
import torch
from _head_vectors import SOFT, X, batch, build, half_squares
from torch.nn import functional as F

from _said import refuses
from opl import errors
from opl.heads.lgm import LGMHead, gaussian, unlikelihood


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
    head = LGMHead(3, num_classes=7, learn_variances=learned).double()
    head.load_state_dict({"means": means, "log_variances": log_variances, "step": head.step}, strict=learned)
    assert head.penalty(features, labels).item() == pytest.approx(expected, rel=1e-12)


def test_the_margin_of_lgm_doubles_up_to_its_cap():
    head = LGMHead(2, num_classes=2, double_every=2)
    head.means.data.zero_()
    features, labels = torch.tensor([[2.0, 0.0]]), torch.tensor([1])  # d = 2
    targets = [head(features, labels)[0, 1].item() for _ in range(7)]
    assert targets == pytest.approx([-2.2, -2.2, -2.4, -2.4, -2.6, -2.6, -2.6])
    assert head.eval()(features, labels).tolist() == [[-2, -2]]
    head.train().set_step(2)
    assert head(features, labels)[0].tolist() == pytest.approx([-2, -2.4])


@pytest.mark.parametrize("learned", [False, True])
def test_distances_are_precise_far_from_the_origin(learned):
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


BAD = {
    "a negative distance margin": (build(LGMHead, margin=-0.3), errors.OptionError, ["-0.3", "at least 0"]),
    "doubling every 0 steps": (
        build(LGMHead, double_every=0),
        errors.OptionError,
        ["double_every 0", "at least 0 and 1"],
    ),
    "a margin from nothing": (build(LGMHead, start=0.0), errors.OptionError, ["start is 0.0"]),
    "soft labels in the penalty": (
        lambda: LGMHead(5, num_classes=9).penalty(X, SOFT),
        errors.LabelError,
        ["label rows", "argmax(1)"],
    ),
}

test_invalid_input_is_refused_in_one_sentence = refuses(BAD)
