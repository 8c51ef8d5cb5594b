"""Distillation into a network of the same shape, against loops by hand."""

import math

import pytest
from _taught_net import TinyNet, built, small_batch

from _divergence import divergence, softmax
from opl.experiments.methods import Distillation


def test_born_again_is_half_labels_and_half_teacher_by_hand():
    model, teacher, batch = TinyNet(0), TinyNet(1), small_batch()
    terms = built(Distillation(weight=0.5, temperature=4.0), teacher)(model, batch)
    logits, wanted = model(batch.images).logits.tolist(), teacher(batch.images).logits.tolist()
    entropy = [-math.log(softmax(row)[label]) for row, label in zip(logits, batch.labels.tolist(), strict=True)]
    taught = [divergence(t, s, 4.0) for t, s in zip(wanted, logits, strict=True)]
    assert terms.parts["distillation"].item() == pytest.approx(sum(taught) / 6)
    assert terms.total.item() == pytest.approx(0.5 * sum(entropy) / 6 + 0.5 * sum(taught) / 6)
