"""Self-supervision: instance labels for the losses, class labels for the probe alone."""

import pytest
import torch
from _taught_net import CLASSES, DIM, TinyNet, small_batch
from pytorch_metric_learning.losses import NTXentLoss as ReferenceLoss
from torch.nn import functional as F

from opl import orthogonal_projection
from opl.experiments.methods import OPL, NTXent, SelfSupervision
from opl.experiments.types import Batch, TaskShape

METHOD = SelfSupervision(
    hidden=7, projected=4, auxiliary=(NTXent(weight=2.0, temperature=0.3), OPL(weight=0.5, gamma=2.0))
)


def built(method=METHOD):
    torch.manual_seed(2)
    return method.build(TaskShape(CLASSES, DIM, (2, 2, 2), 4)).double()


def two_views(labels=None):
    one, two = small_batch(), small_batch()
    images = torch.cat([one.images, two.images.flip(3)])
    return Batch(images, one.labels.repeat(2) if labels is None else labels, one.rows.repeat(2), 1 / 12)


def test_losses_are_those_of_projected_features_with_one_label_per_image():
    model, objective, batch = TinyNet(), built(), two_views()
    terms = objective(model, batch)
    features = model(batch.images).features
    first, norm, _, last = objective.projection
    hidden = features @ first.weight.T
    hidden = (hidden - hidden.mean(0)) / (hidden.var(0, unbiased=False) + norm.eps).sqrt()
    projected = hidden.clamp(min=0) @ last.weight.T
    images = torch.arange(6).repeat(2)
    contrast = ReferenceLoss(temperature=0.3)(projected, images)
    projection = orthogonal_projection(projected, images, gamma=2.0).loss
    probe = F.cross_entropy(model.fc(features), batch.labels)
    torch.testing.assert_close(terms.parts["nt_xent"], contrast)
    torch.testing.assert_close(terms.parts["projection"], projection)
    torch.testing.assert_close(terms.parts["probe"], probe)
    torch.testing.assert_close(terms.total, probe + 2 * contrast + 0.5 * projection)


def gradients(labels=None):
    model, objective = TinyNet(), built()
    objective(model, two_views(labels)).total.backward()
    return model, objective


def test_class_labels_reach_the_classifier_alone():
    (model, objective), (other, other_objective) = gradients(), gradients(torch.zeros(12, dtype=torch.long))
    torch.testing.assert_close(model.body.weight.grad, other.body.weight.grad, rtol=0, atol=0)
    for one, two in zip(objective.parameters(), other_objective.parameters(), strict=True):
        torch.testing.assert_close(one.grad, two.grad, rtol=0, atol=0)
    assert not torch.equal(model.fc.weight.grad, other.fc.weight.grad)
    every = (*model.parameters(), *objective.parameters())
    assert all(parameter.grad is not None and parameter.grad.any() for parameter in every)


def test_untrained_features_without_a_loss_only_train_the_probe():
    model, objective = TinyNet(), built(SelfSupervision())
    objective(model, two_views()).total.backward()
    assert model.body.weight.grad is None
    assert model.fc.weight.grad.any()
    assert objective(model, two_views()).total.item() == pytest.approx(
        objective(model, two_views()).parts["probe"].item()
    )
