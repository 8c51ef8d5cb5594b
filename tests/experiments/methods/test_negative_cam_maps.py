"""The maps of negative CAM equal the maps of the classifier."""

from dataclasses import replace

import pytest
import torch
from torch.nn import functional as F

from _digits_methods import DIGITS, METHODS, objective_of
from opl.errors import OptionError
from opl.experiments.methods import ArcFace, Composite, NegativeCAM
from opl.experiments.models import MnistNet
from opl.experiments.training.build import build_model
from opl.experiments.types import Batch, TaskShape


def test_maps_equal_the_classifier_at_every_position():
    recipe = replace(DIGITS, method=METHODS["hnc"])
    model = build_model(recipe)
    objective, batch = objective_of(recipe, model)
    seen = []
    model.avgpool.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    value = objective(model, batch).parts["negative_cam"]
    maps = torch.einsum("bdhw,cd->bchw", seen[0], model.fc.weight) + model.fc.bias[:, None, None]
    torch.testing.assert_close(maps.mean((2, 3)), model(batch.images).logits)
    total = 0.0
    for image, label in zip(maps, batch.labels, strict=True):
        wrong = [c for c in range(10) if c != label]
        strongest = sorted(wrong, key=lambda c: -image[c].sum())[:3]
        total += sum(-F.log_softmax(image[c].flatten(), dim=0).mean() for c in strongest)
    torch.testing.assert_close(value, total / len(batch.labels))


def test_maps_without_a_linear_classifier_on_a_pooled_map_are_refused():
    shape = TaskShape(10, 32)
    batch = Batch(torch.randn(4, 1, 28, 28), torch.arange(4), torch.arange(4), 0.25)
    objective = Composite(auxiliary=(NegativeCAM(),)).build(shape)
    with pytest.raises(OptionError, match="average pool"):
        objective(MnistNet(embed=2).build(1, 10), batch)
    objective = Composite(head=ArcFace(), auxiliary=(NegativeCAM(),)).build(shape)
    model = MnistNet().build(1, 10)
    model.fc = ArcFace().build(shape)
    with pytest.raises(OptionError, match="linear classifier"):
        objective(model, batch)
