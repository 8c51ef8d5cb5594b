"""Focal loss vs its formula in float64, by hand, and where the usual code breaks."""

import math

import pytest
import torch
from _loss_logits import FORMS, GAMMAS, Y, Z, assert_same, batch, build, call, focal_by_definition
from torch.nn import functional as F

from _said import refuses
from opl import errors
from opl.losses.focal import FocalLoss, focal


@pytest.mark.parametrize("seed", range(5))
def test_sigmoid_focal_with_gamma_0_is_binary_cross_entropy(seed):
    logits, labels = batch(seed)
    one_hot = F.one_hot(labels, 6).double()
    expected = F.binary_cross_entropy_with_logits(logits, one_hot, reduction="none").sum(1)
    assert_same(focal(logits, labels, gamma=0.0, form="sigmoid", reduction="none"), expected, logits)


@pytest.mark.parametrize("gamma", GAMMAS)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("seed", range(3))
def test_focal_equals_its_definition(gamma, form, seed):
    logits, labels = batch(seed)
    expected = focal_by_definition(logits, labels, gamma, form)
    assert_same(focal(logits, labels, gamma=gamma, form=form, reduction="none"), expected, logits)
    assert_same(FocalLoss(gamma=gamma, form=form)(logits, labels), expected.mean(), logits)


def test_focal_by_hand():
    logits, labels = torch.tensor([[0.0, math.log(3)]]), torch.tensor([1])  # p = 3/4
    assert focal(logits, labels).item() == pytest.approx(math.log(4 / 3) / 16)
    assert focal(logits, 1 - labels).item() == pytest.approx(9 * math.log(4) / 16)
    by_class = math.log(4 / 3) / 16 + math.log(2) / 4  # and a half, for the sigmoid of the other
    assert focal(logits, labels, form="sigmoid").item() == pytest.approx(by_class)
    assert focal(logits, labels, class_weights=torch.tensor([1.0, 5.0])).item() == pytest.approx(
        5 * math.log(4 / 3) / 16
    )


def naive_focal(logits, labels, gamma):
    p = logits.softmax(1)[torch.arange(len(labels)), labels]
    return (-((1 - p) ** gamma) * p.log()).mean()


@pytest.mark.parametrize("lead", [20.0, 40.0])
def test_focal_is_finite_for_a_perfect_prediction_where_the_usual_code_is_nan(lead):
    logits, labels = torch.tensor([[lead, 0.0]], requires_grad=True), torch.tensor([0])
    assert torch.autograd.grad(naive_focal(logits, labels, 0.5), logits)[0].isnan().any()
    rest = 1 / (1 + math.exp(lead))  # 1 - p
    entropy = math.log1p(math.exp(-lead))
    slope = -(rest**0.5) * (0.5 * (1 - rest) * entropy + rest)
    for form, others in (("softmax", 0.0), ("sigmoid", math.log(2) / math.sqrt(2))):
        got = focal(logits, labels, gamma=0.5, form=form)
        assert got.item() == pytest.approx(rest**0.5 * entropy + others, rel=1e-5, abs=0)
        gradient = torch.autograd.grad(got, logits)[0][0]
        assert gradient.isfinite().all()
        assert gradient[0].item() == pytest.approx(slope, rel=1e-5, abs=0)


@pytest.mark.parametrize("form", FORMS)
def test_a_single_class_is_accepted(form):
    logits = torch.tensor([[-1.0], [2.0]], dtype=torch.float64, requires_grad=True)
    got = focal(logits, torch.tensor([0, 0]), form=form, reduction="none")
    assert_same(got, focal_by_definition(logits, torch.tensor([0, 0]), 2.0, form), logits)


NAN = float("nan")
BAD = {
    "a negative gamma": (build(FocalLoss, gamma=-1.0), errors.OptionError, ["gamma is -1.0", "at least 0"]),
    "a gamma that is no number": (build(FocalLoss, gamma=NAN), errors.OptionError, ["gamma is nan", "finite"]),
    "an unknown form": (build(FocalLoss, form="softmx"), errors.OptionError, ["'softmx'", "did you mean 'softmax'"]),
    "an unknown reduction in a call": (call(focal, Z, Y, reduction="avg"), errors.OptionError, ["'avg'", "'mean'"]),
    "a gamma without end": (call(focal, Z, Y, gamma=math.inf), errors.OptionError, ["gamma is inf", "finite"]),
}

test_invalid_input_is_refused_in_one_sentence = refuses(BAD)
