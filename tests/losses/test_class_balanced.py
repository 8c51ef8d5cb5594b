"""The class-balanced focal loss and its weights, by hand and vs focal loss."""

import math

import pytest
import torch
from _loss_logits import FORMS, GAMMAS, Y, Z, assert_same, batch, build, call, focal_by_definition
from torch.nn import functional as F

from _said import refuses
from opl import errors
from opl.losses.class_balanced import ClassBalancedFocalLoss, class_balanced_weights
from opl.losses.focal import focal


def test_class_balanced_weights_by_hand():
    # 1/(1 - 1/2), 1/(1 - 1/4), 1/(1 - 1/8) are as 21 : 14 : 12, and 21 + 14 + 12 = 47
    assert class_balanced_weights([1, 2, 3], beta=0.5).tolist() == pytest.approx([63 / 47, 42 / 47, 36 / 47])
    assert class_balanced_weights([7, 2, 30], beta=0.0).tolist() == [1, 1, 1]
    assert class_balanced_weights([1, 3], beta=1 - 1e-9).tolist() == pytest.approx([1.5, 0.5])
    assert class_balanced_weights([1, 0, 1], beta=0.9).tolist() == [1.5, 0, 1.5]
    assert class_balanced_weights(torch.tensor([1, 2]), beta=0.5).tolist() == pytest.approx([6 / 5, 4 / 5])


@pytest.mark.parametrize("beta", [0.0, 0.9, 0.99, 0.999, 0.9999, 1 - 1e-12])
@pytest.mark.parametrize("count", [1, 450, 500, 10**7])
@pytest.mark.parametrize("classes", [1, 3, 7, 100])
def test_equal_counts_have_weight_1_exactly(beta, count, classes):
    assert class_balanced_weights([count] * classes, beta=beta).tolist() == [1] * classes


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("gamma", [0.0, *GAMMAS])
def test_on_balanced_data_it_is_focal_loss_bit_for_bit(form, gamma):
    logits, labels = batch()
    logits = logits.detach().float()
    balanced = ClassBalancedFocalLoss([500] * 6, gamma=gamma, form=form)
    assert torch.equal(balanced(logits, labels), focal(logits, labels, gamma=gamma, form=form))


@pytest.mark.parametrize("form", FORMS)
def test_on_unbalanced_data_each_sample_counts_by_its_class(form):
    logits, labels = batch(classes=3)
    weights = torch.tensor([63 / 47, 42 / 47, 36 / 47], dtype=torch.float64)
    expected = (focal_by_definition(logits, labels, 1.0, form) * weights[labels]).sum() / 20
    assert_same(ClassBalancedFocalLoss([1, 2, 3], beta=0.5, form=form)(logits, labels), expected, logits, rtol=1e-6)


def released_sigmoid_focal(z, one_hot, gamma):
    modulator = torch.exp(-gamma * one_hot * z - gamma * torch.log(1 + torch.exp(-z)))
    return (modulator * F.binary_cross_entropy_with_logits(z, one_hot, reduction="none")).sum()


@pytest.mark.parametrize("label", [0, 1])
def test_far_negative_logits_are_right_and_the_released_modulator_is_not(label):
    logits, labels = torch.tensor([[-100.0, 0.0]], requires_grad=True), torch.tensor([label])
    released = released_sigmoid_focal(logits, F.one_hot(labels, 2).float(), gamma=1.0)
    assert torch.autograd.grad(released, logits)[0].isnan().any()
    # The right answer that is missed costs 100, the wrong one that is not given nothing; the other is log(2) / 2.
    expected = [100, 0][label] + math.log(2) / 2
    assert (abs(released.item() - expected) > 99) == (label == 0)
    got = focal(logits, labels, gamma=1.0, form="sigmoid")
    assert got.item() == pytest.approx(expected)
    wide = logits.detach().double().requires_grad_()
    exact = focal_by_definition(wide, labels, 1.0, "sigmoid")
    torch.testing.assert_close(got.double(), exact[0], rtol=1e-6, atol=0)
    gradients = [torch.autograd.grad(value.sum(), at)[0].double() for value, at in ((got, logits), (exact, wide))]
    torch.testing.assert_close(*gradients, rtol=1e-6, atol=1e-30)


BALANCED = ClassBalancedFocalLoss([1, 2, 3])
BAD = {
    "a balanced gamma below 0": (build(ClassBalancedFocalLoss, [1, 2], gamma=-1.0), errors.OptionError, ["gamma"]),
    "a balanced form": (build(ClassBalancedFocalLoss, [1, 2], form="sigmoids"), errors.OptionError, ["'sigmoid'"]),
    "a beta of 1": (build(ClassBalancedFocalLoss, [1, 2], beta=1.0), errors.OptionError, ["beta is 1.0", "below 1"]),
    "a negative beta": (call(class_balanced_weights, [1], beta=-0.1), errors.OptionError, ["-0.1", "at least 0"]),
    "no counts": (call(class_balanced_weights, []), errors.OptionError, ["counts", "per class"]),
    "counts of nothing": (call(class_balanced_weights, [0, 0]), errors.OptionError, ["at least one positive"]),
    "negative counts": (call(class_balanced_weights, [3, -1]), errors.OptionError, ["counts"]),
    "a table of counts": (call(class_balanced_weights, torch.ones(2, 2)), errors.OptionError, ["(C,)"]),
    "counts of other classes": (call(BALANCED, Z[:, :2], Y), errors.OptionError, ["2 logits", "3 classes"]),
}

test_invalid_input_is_refused_in_one_sentence = refuses(BAD)
