"""TRADES vs its formula written as loops."""

import math

import pytest
from _attacked_net import CLASSES, METHODS, TinyNet, built, small_batch

from _divergence import softmax
from opl import orthogonal_projection


def test_trades_equals_its_formula_written_as_loops():
    model, batch = TinyNet(), small_batch()
    terms = built(METHODS["trades"])(model, batch)
    (clean_images, _), (moved_images, _) = model.seen[-2:]
    clean, moved = model(clean_images), model(moved_images)
    entropy = kl = 0.0
    for row, label in enumerate(batch.labels.tolist()):
        p, q = (softmax(output.logits[row].tolist()) for output in (clean, moved))
        entropy -= math.log(p[label])
        kl += sum(p[j] * math.log(p[j] / q[j]) for j in range(CLASSES))
    projection = orthogonal_projection(moved.features, batch.labels, gamma=0.5, algorithm="pairs").loss.item()
    assert terms.parts["entropy"].item() == pytest.approx(entropy / 6)
    assert terms.parts["divergence"].item() == pytest.approx(kl / 6)
    assert terms.total.item() == pytest.approx(entropy / 6 + 6 * kl / 6 + 0.7 * projection)
