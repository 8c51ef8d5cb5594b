"""Twin distillation, the second generation of SKD, against loops by hand."""

import math

import numpy as np
import pytest
import torch
from _taught_net import TinyNet, built, small_batch

from _divergence import divergence
from opl import orthogonal_projection
from opl.experiments.methods import OPL, TwinDistillation
from opl.experiments.methods.twin_distillation import sum_of_distances


def test_turned_twins_are_the_teachers_answers_and_the_distance_to_the_twin_by_hand():
    model, teacher, batch = TinyNet(0), TinyNet(1), small_batch()
    terms = built(TwinDistillation(weight=0.3, temperature=2.0, auxiliary=(OPL(),)), teacher)(model, batch)
    taught = distance = 0.0
    for image in batch.images:
        logits = model(image[None]).logits[0].tolist()
        twin = model(torch.from_numpy(np.rot90(image[0].numpy(), 2).copy())[None, None]).logits[0].tolist()
        taught += divergence(teacher(image[None]).logits[0].tolist(), logits, 2.0)
        distance += math.dist(logits, twin)
    assert terms.parts["distillation"].item() == pytest.approx(taught / 6)
    assert terms.parts["twins"].item() == pytest.approx(distance / 6)
    projection = orthogonal_projection(model(batch.images).features, batch.labels, algorithm="pairs").loss.item()
    assert terms.total.item() == pytest.approx(taught / 6 + 0.3 / 3 * distance / 6 + projection)


def test_equal_twins_have_a_gradient_of_zero_not_of_nan():
    one = torch.randn(2, 3, requires_grad=True)
    sum_of_distances(one, one.detach().clone()).backward()
    assert one.grad.abs().sum() == 0
