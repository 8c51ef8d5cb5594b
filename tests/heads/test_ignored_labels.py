"""Rows to ignore in every head: logits without a margin, no penalty, and no part in the loss."""

import pytest
import torch
from torch.nn import functional as F

from _said import says
from opl import errors
from opl.heads import ArcFaceHead, ASoftmaxHead, CosFaceHead, LGMHead, LinearHead, LSoftmaxHead, RBFHead

HEADS = {
    "a-softmax": lambda **options: ASoftmaxHead(5, num_classes=7, base=1e-3, floor=0.0, **options),
    "l-softmax": lambda **options: LSoftmaxHead(5, num_classes=7, base=1e-3, **options),
    "arcface": lambda **options: ArcFaceHead(5, num_classes=7, scale=8.0, **options),
    "cosface": lambda **options: CosFaceHead(5, num_classes=7, scale=8.0, **options),
    "lgm": lambda **options: LGMHead(5, num_classes=7, **options),
    "lgm with variances": lambda **options: LGMHead(5, num_classes=7, learn_variances=True, **options),
    "linear": lambda **options: LinearHead(5, num_classes=7, **options),
    "rbf": lambda **options: RBFHead(5, num_classes=7, **options),
}


def batch(ignore_index):
    features, labels = torch.randn(12, 5, dtype=torch.float64, requires_grad=True), torch.arange(12) % 7
    ignored = torch.arange(12) % 4 == 1
    return features, labels.masked_fill(ignored, ignore_index), ignored


@pytest.mark.parametrize("ignore_index", [-100, 255])
@pytest.mark.parametrize("name", HEADS)
def test_ignored_rows_have_the_logits_of_a_test_and_take_no_part_in_the_loss(name, ignore_index):
    head = HEADS[name](ignore_index=ignore_index).double()
    features, labels, ignored = batch(ignore_index)
    logits = head(features, labels)
    torch.testing.assert_close(logits[ignored], head(features)[ignored])
    if name not in ("linear", "rbf"):
        head.set_step(0)  # the same margin again
    got = F.cross_entropy(logits, labels, ignore_index=ignore_index)
    expected = F.cross_entropy(head(features[~ignored], labels[~ignored]), labels[~ignored])
    torch.testing.assert_close(got, expected)
    inputs = [features, *head.parameters()]
    torch.testing.assert_close(*(torch.autograd.grad(each, inputs) for each in (got, expected)))


@pytest.mark.parametrize("name", ["lgm", "lgm with variances"])
def test_ignored_rows_pay_no_penalty(name):
    head = HEADS[name]().double()
    features, labels, ignored = batch(-100)
    broken = features.detach().clone()
    broken[ignored] = torch.nan
    expected = head.penalty(features[~ignored], labels[~ignored])
    for x in (features, broken):
        torch.testing.assert_close(head.penalty(x, labels), expected)
    nothing = head.penalty(features, torch.full((12,), -100))
    assert nothing.item() == 0
    assert not any(slope.any() for slope in torch.autograd.grad(nothing, [*head.parameters()]))


@pytest.mark.parametrize("name", HEADS)
def test_other_labels_without_a_class_are_refused_beside_ignored_ones(name):
    features = torch.randn(3, 5)
    says(lambda: HEADS[name]()(features, torch.tensor([0, -100, 7])), errors.LabelError, ["label 7", "(0 to 6)"])
    says(lambda: HEADS[name]()(features, torch.tensor([0, -100, -1])), errors.LabelError, ["label -1"])
    says(lambda: HEADS[name](ignore_index="x"), errors.OptionError, ["ignore_index is 'x'"])
