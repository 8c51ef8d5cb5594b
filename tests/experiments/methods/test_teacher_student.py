"""Distillation from a teacher vs loops by hand; the teacher is neither trained nor saved."""

import math

import numpy as np
import pytest
import torch
from _taught_net import TinyNet, built, small_batch

from _divergence import divergence, softmax
from opl import orthogonal_projection
from opl.errors import OptionError
from opl.experiments.methods import OPL, Distillation, Rotations, TwinDistillation
from opl.experiments.methods.teacher_student import sum_of_distances


def test_distillation_equals_half_labels_plus_half_teacher():
    model, teacher, batch = TinyNet(0), TinyNet(1), small_batch()
    terms = built(Distillation(weight=0.5, temperature=4.0), teacher)(model, batch)
    logits, wanted = model(batch.images).logits.tolist(), teacher(batch.images).logits.tolist()
    entropy = [-math.log(softmax(row)[label]) for row, label in zip(logits, batch.labels.tolist(), strict=True)]
    taught = [divergence(t, s, 4.0) for t, s in zip(wanted, logits, strict=True)]
    assert terms.parts["distillation"].item() == pytest.approx(sum(taught) / 6)
    assert terms.total.item() == pytest.approx(0.5 * sum(entropy) / 6 + 0.5 * sum(taught) / 6)


def test_twin_distillation_equals_divergence_plus_distance_to_the_twin():
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


def test_equal_twins_have_a_zero_gradient():
    one = torch.randn(2, 3, requires_grad=True)
    sum_of_distances(one, one.detach().clone()).backward()
    assert one.grad.abs().sum() == 0


@pytest.mark.parametrize("method", [Distillation(), TwinDistillation()])
def test_a_teacher_is_neither_trained_nor_saved(method):
    teacher = TinyNet(1).train()
    objective = built(method, teacher)
    assert not list(objective.parameters())
    assert not objective.state_dict()
    objective(TinyNet(0), small_batch()).total.backward()
    assert not teacher.training
    assert all(parameter.grad is None for parameter in teacher.parameters())


def test_missing_teachers_and_repeated_losses_are_refused():
    for method in (Distillation(), TwinDistillation()):
        with pytest.raises(OptionError, match="after"):
            built(method)
    with pytest.raises(OptionError, match="twice"):
        built(Rotations(auxiliary=(OPL(), OPL(weight=2.0))))
