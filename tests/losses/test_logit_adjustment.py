"""Logit adjustment vs a loop over samples, its Bayes-optimal logits, and its messages."""

import math

import pytest
import torch
from _loss_logits import Y, Z, assert_same, batch, build, call
from torch.nn import functional as F

from _said import refuses
from opl import errors
from opl.losses.logit_adjustment import LogitAdjustmentLoss, class_log_priors, logit_adjustment

COUNTS = [500, 200, 90, 30, 10, 1]


@pytest.mark.parametrize("tau", [0.5, 1.0, 2.0])
def test_it_equals_the_formula_sample_by_sample(tau):
    logits, labels = batch()
    values = []
    for row, label in zip(logits, labels.tolist(), strict=True):
        weighted = [(COUNTS[c] / sum(COUNTS)) ** tau * row[c].exp() for c in range(6)]
        values.append(-(weighted[label] / sum(weighted)).log())
    loss = LogitAdjustmentLoss(COUNTS, tau=tau, reduction="none")
    assert_same(loss(logits, labels), torch.stack(values), logits, rtol=1e-6)


@pytest.mark.parametrize("options", [{"counts": COUNTS, "tau": 0.0}, {"counts": [40] * 6}])
def test_without_adjustment_it_is_cross_entropy(options):
    logits, labels = batch()
    assert_same(LogitAdjustmentLoss(**options)(logits, labels), F.cross_entropy(logits, labels), logits, rtol=1e-6)


def test_with_tau_1_equal_logits_are_optimal_for_images_without_information_on_their_class():
    """The loss is convex, so a zero gradient marks its minimum; cross-entropy prefers the frequent class there."""
    counts = torch.tensor([80, 15, 5])
    labels = torch.arange(3).repeat_interleave(counts)
    logits = torch.zeros(1, 3, dtype=torch.float64, requires_grad=True)
    adjusted, plain = (
        torch.autograd.grad(LogitAdjustmentLoss(counts, tau=tau)(logits.expand(100, 3), labels), logits)[0]
        for tau in (1.0, 0.0)
    )
    torch.testing.assert_close(adjusted, torch.zeros_like(adjusted), rtol=0, atol=1e-7)
    assert plain[0, 0] < -0.4


def test_log_priors_by_hand():
    assert class_log_priors([3, 1]).exp().tolist() == pytest.approx([0.75, 0.25])
    assert class_log_priors(torch.tensor([3, 0])).tolist() == pytest.approx([math.log(0.75), math.log(0.25)])


ADJUSTED = LogitAdjustmentLoss([1, 2, 3])
BAD = {
    "a negative tau": (build(LogitAdjustmentLoss, [1, 2], tau=-1.0), errors.OptionError, ["tau is -1.0", "at least 0"]),
    "an infinite tau": (
        call(logit_adjustment, Z, Y, log_priors=torch.zeros(3), tau=math.inf),
        errors.OptionError,
        ["tau"],
    ),
    "a tau that is a text": (build(LogitAdjustmentLoss, [1, 2], tau="1"), errors.OptionError, ["tau is '1'"]),
    "no counts": (call(class_log_priors, []), errors.OptionError, ["counts", "per class"]),
    "negative counts": (call(class_log_priors, [3, -1]), errors.OptionError, ["none negative"]),
    "counts that are no number": (call(class_log_priors, [3, math.nan]), errors.OptionError, ["finite"]),
    "a table of counts": (call(class_log_priors, torch.ones(2, 2)), errors.OptionError, ["(C,)"]),
    "counts of other classes": (call(ADJUSTED, Z[:, :2], Y), errors.OptionError, ["2 logits", "3 classes"]),
}

test_invalid_input_is_refused_in_one_sentence = refuses(BAD)
