"""Contract of every method that recipes can name: one step of training reaches all parameters, with finite gradients.

The lists are walked, so that a new method, head, criterion or auxiliary loss fails here until it has a case.
"""

from dataclasses import fields
from typing import get_args

import pytest
import torch

from _digits_methods import METHODS as DIGITS_METHODS
from opl.experiments.methods import (
    METHODS,
    Auxiliary,
    Composite,
    Criterion,
    HeadChoice,
    OPLVariant,
    Pruning,
    SelfSupervision,
)
from opl.experiments.models import CifarResNet
from opl.experiments.types import Batch, TaskShape

CLASSES, ROWS = 3, 6
ELSEWHERE = {
    OPLVariant: "test_opl_variants.py",
    Pruning: "test_pruning.py",
    SelfSupervision: "test_self_supervision.py",
}
"""Tests in tests/experiments/methods of what this batch does not fit."""


def network():
    torch.manual_seed(1)
    return CifarResNet(depth=8, width=8).build(3, CLASSES)


@pytest.mark.parametrize("method", [method for method in METHODS if method not in ELSEWHERE])
def test_every_method_trains_all_parameters(method):
    method = method(**({"steps": 1} if "steps" in {field.name for field in fields(method)} else {}))
    model, images = network().train(), torch.rand(ROWS, 3, 16, 16, generator=torch.Generator().manual_seed(2))
    shape = TaskShape(CLASSES, model.feature_dim, (ROWS // CLASSES,) * CLASSES, steps=1, teacher=network())
    torch.manual_seed(3)
    objective = method.build(shape).train()
    terms = objective(model, Batch(images, torch.arange(ROWS) % CLASSES, torch.arange(ROWS), 1 / ROWS))
    terms.total.backward()
    trained = [*model.named_parameters(), *objective.named_parameters()]
    assert [name for name, value in trained if value.grad is None or not value.grad.isfinite().all()] == []


def test_every_head_criterion_and_auxiliary_loss_is_trained_on_digits():
    """By the tests of `Composite`, which walk these cases."""
    cases = [method for method in DIGITS_METHODS.values() if isinstance(method, Composite)]
    parts = {type(part) for case in cases for part in (case.head, case.criterion, *case.auxiliary)}
    listed = {*get_args(HeadChoice), *get_args(Criterion), *get_args(Auxiliary)}
    assert listed - parts - set(ELSEWHERE) == set()
