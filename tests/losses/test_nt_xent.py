"""NT-Xent vs a double loop and vs pytorch-metric-learning, with two and with several views per image."""

import math

import pytest
import torch
from pytorch_metric_learning.losses import NTXentLoss as ReferenceLoss

from _loss_features import DIM, cosine, same_by_value_and_gradient
from _said import says
from opl import errors
from opl.losses.nt_xent import NTXentLoss, nt_xent

LABELS = {
    "two views": torch.arange(6).repeat(2),
    "several views": torch.tensor([0, 0, 0, 1, 1, 2, 2, 2, 2, 5, 6, 5]),
}


def views(seed=0):
    return torch.randn(12, DIM, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def by_loops(features, labels, temperature):
    losses = []
    for i in range(len(labels)):
        scores = [(cosine(features[i], features[j]) / temperature).exp() for j in range(len(labels))]
        for j in range(len(labels)):
            if i != j and labels[i] == labels[j]:
                negatives = sum(scores[k] for k in range(len(labels)) if labels[k] != labels[i])
                losses.append(-(scores[j] / (scores[j] + negatives)).log())
    return sum(losses) / len(losses)


@pytest.mark.parametrize("temperature", [0.07, 0.5, 2.0])
@pytest.mark.parametrize("name", LABELS)
def test_it_equals_a_double_loop(name, temperature):
    labels = LABELS[name]
    loss = NTXentLoss(temperature=temperature)
    same_by_value_and_gradient(loss, lambda x: by_loops(x, labels, temperature), views(), labels)


@pytest.mark.parametrize("temperature", [0.07, 0.5])
@pytest.mark.parametrize("name", LABELS)
def test_it_equals_pytorch_metric_learning(name, temperature):
    reference = ReferenceLoss(temperature=temperature)
    for seed in range(3):
        got = nt_xent(views(seed), LABELS[name], temperature=temperature)
        torch.testing.assert_close(got, reference(views(seed), LABELS[name]), rtol=1e-6, atol=1e-9)


def test_equal_features_have_the_entropy_of_a_uniform_choice():
    for images in (2, 5, 40):
        value = nt_xent(torch.ones(2 * images, 3), torch.arange(images).repeat(2))
        assert value.item() == pytest.approx(math.log(2 * images - 1))


@pytest.mark.parametrize("labels", [torch.zeros(4, dtype=torch.long), torch.arange(4)])
def test_without_negatives_or_without_positives_it_is_0_with_zero_gradient(labels):
    features = views()[:4].requires_grad_()
    value = nt_xent(features, labels)
    value.backward()
    assert value.item() == 0
    assert not features.grad.any()


def test_invalid_settings_are_refused():
    says(lambda: NTXentLoss(temperature=0.0), errors.OptionError, ["temperature is 0.0", "above 0"])
