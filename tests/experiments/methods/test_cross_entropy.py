"""CE+OPL: torch's cross-entropy with label smoothing, plus a weight times OPL; without OPL, the same cross-entropy."""

import pytest
import torch
from _taught_net import TinyNet, built, small_batch
from torch.nn import functional as F

import opl
from opl.experiments.methods import CrossEntropy, CrossEntropyOPL

SMOOTHING = (0.0, 0.1, 0.6)


@pytest.mark.parametrize("smoothing", SMOOTHING)
def test_loss_and_gradient_equal_smoothed_cross_entropy_plus_weighted_opl(smoothing):
    model, batch = TinyNet(), small_batch()
    method = CrossEntropyOPL(weight=0.7, gamma=2.0, label_smoothing=smoothing)
    got = built(method)(model, batch)
    features, logits = model(batch.images)
    entropy = F.cross_entropy(logits, batch.labels, label_smoothing=smoothing)
    projection = opl.orthogonal_projection(features, batch.labels, gamma=2.0).loss
    torch.testing.assert_close(got.total, entropy + 0.7 * projection)
    torch.testing.assert_close([*got.parts.values()], [entropy, projection])
    weights = [*model.parameters()]
    expected = torch.autograd.grad(entropy + 0.7 * projection, weights)
    torch.testing.assert_close(torch.autograd.grad(got.total, weights), expected)


@pytest.mark.parametrize("smoothing", SMOOTHING)
def test_baseline_has_the_same_label_smoothing(smoothing):
    baseline = CrossEntropyOPL(weight=0.3, label_smoothing=smoothing).baseline()
    assert baseline == (CrossEntropy(label_smoothing=smoothing) if smoothing else CrossEntropy())
    model, batch = TinyNet(), small_batch()
    expected = F.cross_entropy(model(batch.images).logits, batch.labels, label_smoothing=smoothing)
    torch.testing.assert_close(built(baseline)(model, batch).total, expected)
