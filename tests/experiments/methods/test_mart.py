"""MART vs its formula written as loops."""

import math

import pytest
import torch
from _attacked_net import CLASSES, METHODS, TinyNet, built, small_batch

from _divergence import softmax
from opl import orthogonal_projection
from opl.experiments.methods.mart import boosted_cross_entropy, consistency
from opl.experiments.methods.trades import divergence


def test_mart_equals_its_formula_written_as_loops():
    model, batch = TinyNet(), small_batch()
    terms = built(METHODS["mart"])(model, batch)
    (clean_images, _), (moved_images, _) = model.seen[-2:]
    clean, moved = model(clean_images), model(moved_images)
    boost = weighted = 0.0
    for row, label in enumerate(batch.labels.tolist()):
        p, q = (softmax(output.logits[row].tolist()) for output in (clean, moved))
        runner_up = max(q[j] for j in range(CLASSES) if j != label)
        boost += -math.log(q[label]) - math.log(1.0001 - runner_up + 1e-12)
        kl = sum(p[j] * (math.log(p[j]) - math.log(q[j] + 1e-12)) for j in range(CLASSES))
        weighted += (1.0000001 - p[label]) * kl
    projection = orthogonal_projection(moved.features, batch.labels, gamma=0.5, algorithm="pairs").loss.item()
    assert terms.parts["boosted"].item() == pytest.approx(boost / 6)
    assert terms.parts["consistency"].item() == pytest.approx(weighted / 6)
    assert terms.parts["projection"].item() == pytest.approx(projection)
    assert terms.total.item() == pytest.approx(boost / 6 + 5 * weighted / 6 + 0.7 * projection)


def test_gradients_flow_through_both_passes_of_mart_and_trades():
    clean, moved = (torch.randn(4, CLASSES, dtype=torch.float64, requires_grad=True) for _ in range(2))
    labels = torch.arange(4)
    for value in (consistency(clean, moved, labels).sum(), divergence(clean, moved).sum()):
        assert all(gradient.abs().sum() > 0 for gradient in torch.autograd.grad(value, (clean, moved)))
    assert torch.autograd.gradcheck(lambda x: boosted_cross_entropy(x, labels), moved)
    assert torch.autograd.gradcheck(lambda x, y: consistency(x, y, labels), (clean, moved))
    assert torch.autograd.gradcheck(divergence, (clean, moved))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_confident_predictions_have_finite_losses_and_gradients(dtype):
    clean = torch.tensor([[60.0, -60.0, 0.0], [-60.0, 60.0, 0.0]], dtype=dtype, requires_grad=True)
    moved = (-clean.detach()).requires_grad_()
    labels = torch.tensor([0, 0])
    for value in (boosted_cross_entropy(moved, labels).sum(), consistency(clean, moved, labels).sum()):
        assert value.isfinite()
        wanted = torch.autograd.grad(value, (clean, moved), allow_unused=True)
        assert all(gradient is None or gradient.isfinite().all() for gradient in wanted)
