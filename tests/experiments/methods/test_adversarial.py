"""Adversarial training of Madry against its steps and its loss by hand."""

import math

import pytest
import torch
from _attacked_net import METHODS, TinyNet, built, small_batch
from torch.nn import functional as F

from _divergence import softmax
from opl import orthogonal_projection
from opl.experiments.methods import AdversarialTraining


def test_madry_is_cross_entropy_of_the_moved_images_alone_and_opl_sees_their_features():
    model, batch = TinyNet(), small_batch()
    terms = built(METHODS["madry"])(model, batch)
    moved = model.seen[-1][0]
    entropy = 0.0
    output = model(moved)  # in training mode, as the step
    for logits, label in zip(output.logits.tolist(), batch.labels.tolist(), strict=True):
        entropy -= math.log(softmax(logits)[label]) / 6
    expected = orthogonal_projection(output.features, batch.labels, gamma=0.5, algorithm="pairs").loss
    assert terms.parts["entropy"].item() == pytest.approx(entropy)
    torch.testing.assert_close(terms.parts["projection"], expected)
    assert terms.total.item() == pytest.approx(entropy + 0.7 * expected.item())


def test_the_attack_of_madry_is_ten_signed_steps_by_hand():
    method, batch = AdversarialTraining(random_start=False, inner="eval"), small_batch()
    model = TinyNet()
    built(method)(model, batch)
    found = model.seen[-1][0]
    model = TinyNet()
    model.eval()
    moved = batch.images.clone()
    for _ in range(10):
        moved.requires_grad_()
        (gradient,) = torch.autograd.grad(F.cross_entropy(model(moved).logits, batch.labels), moved)
        moved = moved.detach() + 2 / 255 * gradient.sign()
        moved = torch.min(torch.max(moved, batch.images - 8 / 255), batch.images + 8 / 255).clamp(0, 1)
    torch.testing.assert_close(found, moved)
