"""Lq and truncated Lq vs the formula in float64, by hand, and at the ends of the scale."""

import math

import pytest
import torch
from _loss_logits import Y, Z, assert_same, batch
from torch.nn import functional as F

from _said import refuses
from opl import errors
from opl.losses.truncated import (
    GeneralizedCrossEntropyLoss,
    TruncatedLoss,
    generalized_cross_entropy,
    keep_mask,
    truncated,
)


def probabilities(logits, labels):
    return torch.stack([row.exp()[label] / row.exp().sum() for row, label in zip(logits, labels.tolist(), strict=True)])


@pytest.mark.parametrize("q", [0.05, 0.3, 0.7, 1.0])
@pytest.mark.parametrize("seed", range(3))
def test_lq_equals_its_formula(q, seed):
    logits, labels = batch(seed)
    expected = (1 - probabilities(logits, labels) ** q) / q
    assert_same(generalized_cross_entropy(logits, labels, q=q, reduction="none"), expected, logits)
    assert_same(GeneralizedCrossEntropyLoss(q=q)(logits, labels), expected.mean(), logits)


def test_lq_goes_from_cross_entropy_to_half_the_absolute_error():
    logits, labels = batch()
    assert_same(generalized_cross_entropy(logits, labels, q=0.0), F.cross_entropy(logits, labels), logits)
    near = generalized_cross_entropy(logits, labels, q=1e-9)
    torch.testing.assert_close(near, F.cross_entropy(logits, labels), rtol=1e-7, atol=0)
    absolute = (logits.softmax(1) - F.one_hot(labels, 6)).abs().sum(1)
    assert_same(generalized_cross_entropy(logits, labels, q=1.0, reduction="none"), absolute / 2, logits)


@pytest.mark.parametrize(("q", "k"), [(0.7, 0.5), (0.3, 0.2), (1.0, 0.9)])
def test_truncated_is_lq_cut_off_and_has_no_gradient_beyond(q, k):
    logits, labels = batch(rows=30)
    p = probabilities(logits, labels)
    expected = torch.where(p > k, (1 - p**q) / q, (1 - k**q) / q)
    got = truncated(logits, labels, q=q, k=k, reduction="none")
    assert_same(got, expected, logits)
    assert_same(TruncatedLoss(q=q, k=k)(logits, labels), expected.mean(), logits)
    (slope,) = torch.autograd.grad(got.sum(), logits)
    assert torch.equal(slope.any(1), p > k)
    assert 0 < int((p > k).sum()) < len(p)


def test_truncated_by_hand():
    # p = 3/4 and 1/4; the bound is (1 - 0.5^0.7) / 0.7 = 0.54918
    logits, labels = torch.tensor([[0.0, math.log(3)]] * 2), torch.tensor([1, 0])
    values = truncated(logits, labels, reduction="none").tolist()
    assert values == pytest.approx([(1 - 0.75**0.7) / 0.7, 0.54918], abs=1e-5)
    counted = truncated(logits, labels, weights=torch.tensor([0.0, 1.0]), reduction="none").tolist()
    assert counted == pytest.approx([0.54918, (1 - 0.25**0.7) / 0.7], abs=1e-5)
    assert keep_mask(logits, labels).tolist() == [True, False]
    assert keep_mask(logits, labels, k=0.2).tolist() == [True, True]
    half = torch.zeros(1, 2)
    assert keep_mask(half, torch.tensor([0])).tolist() == [False]  # p is k: not above


def test_weights_have_the_gradient_of_the_released_formula():
    logits, labels = batch()
    weights = (torch.arange(20) % 3 > 0).double()
    p = logits.softmax(1).gather(1, labels[:, None]).squeeze(1)
    bound = (1 - 0.5**0.7) / 0.7
    released = (((1 - p**0.7) / 0.7) * weights - bound * weights).mean()
    got = truncated(logits, labels, weights=weights)
    assert got.item() == pytest.approx(released.item() + bound)
    torch.testing.assert_close(*(torch.autograd.grad(value, logits)[0] for value in (got, released)))
    assert torch.equal(truncated(logits, labels, weights=weights.bool()), got)


@pytest.mark.parametrize("q", [0.0, 0.3, 0.7, 1.0])
@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
def test_saturated_logits_have_the_values_and_slopes_of_the_limits(q, kind):
    for lead in (30.0, 90.0):
        logits = torch.tensor([[lead, 0.0], [-lead, 0.0]], dtype=kind, requires_grad=True)
        values = generalized_cross_entropy(logits, torch.tensor([0, 0]), q=q, reduction="none")
        rest = math.exp(-lead)  # 1 - p of the first, p of the second, to all digits
        wrong = (1 - rest**q) / q if q else lead
        assert values.tolist() == pytest.approx([rest, wrong], rel=1e-5, abs=0)
        (slope,) = torch.autograd.grad(values.sum(), logits)
        assert slope[:, 0].tolist() == pytest.approx([-rest, -(rest**q)], rel=1e-4, abs=1e-44)
    endless = torch.tensor([[3e38, -3e38]], requires_grad=True)
    for label in (0, 1):
        for loss in (generalized_cross_entropy, truncated):
            value = loss(endless, torch.tensor([label]), q=max(q, 0.1))
            assert value.isfinite()
            assert torch.autograd.grad(value, endless)[0].isfinite().all()


def test_the_loss_is_zero_for_one_class_and_for_an_empty_batch():
    one = torch.tensor([[2.0], [-1.0]], requires_grad=True)
    for loss in (GeneralizedCrossEntropyLoss(), TruncatedLoss()):
        value = loss(one, torch.tensor([0, 0]))
        value.backward()
        assert (value.item(), one.grad.any().item()) == (0, False)
        assert loss(torch.zeros(0, 3), torch.zeros(0, dtype=torch.long)).item() == 0


BAD = {
    "a q above 1": (lambda: GeneralizedCrossEntropyLoss(q=1.5), errors.OptionError, ["q is 1.5", "0 (cross-entropy)"]),
    "a q below 0": (lambda: truncated(Z, Y, q=-0.1), errors.OptionError, ["q is -0.1"]),
    "a q that is no number": (lambda: TruncatedLoss(q=math.nan), errors.OptionError, ["q is nan"]),
    "a bound of 0": (lambda: TruncatedLoss(k=0.0), errors.OptionError, ["k is 0.0", "0.5"]),
    "a bound of 1": (lambda: keep_mask(Z, Y, k=1.0), errors.OptionError, ["k is 1.0"]),
    "too few weights": (lambda: truncated(Z, Y, weights=torch.ones(3)), errors.OptionError, ["(3,)", "4 samples"]),
}

test_invalid_input_is_refused_in_one_sentence = refuses(BAD)
