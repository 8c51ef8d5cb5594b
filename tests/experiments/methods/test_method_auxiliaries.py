"""Every method with every auxiliary loss: it trains, and the loss is added with its weight."""

from dataclasses import fields, replace

import pytest
import torch
from torch import nn

from opl.errors import OptionError
from opl.experiments.methods import METHODS, SelfSupervision, auxiliaries
from opl.experiments.methods.auxiliaries import AuxiliaryMethod
from opl.experiments.methods.self_supervision import OF_CLASSES
from opl.experiments.models import CifarResNet
from opl.experiments.types import Batch, TaskShape

CLASSES, ROWS = 3, 6
AUXILIARIES = auxiliaries.Auxiliary.__args__
WITH_AUXILIARY = [method for method in METHODS if issubclass(method, AuxiliaryMethod)]


def network() -> nn.Module:
    torch.manual_seed(1)
    return CifarResNet(depth=8, width=8).build(3, CLASSES)


def some_batch() -> Batch:
    torch.manual_seed(2)
    return Batch(torch.rand(ROWS, 3, 16, 16), torch.arange(ROWS) % CLASSES, torch.arange(ROWS), 1 / ROWS)


def shape(model: nn.Module) -> TaskShape:
    counts = (ROWS // CLASSES,) * CLASSES
    return TaskShape(CLASSES, model.feature_dim, counts, steps=1, teacher=network())


def loss_of(method):
    """The terms of one batch, chance being the same for every method."""
    model = network()
    model.train()
    torch.manual_seed(3)
    objective = method.build(shape(model))
    objective.train()
    torch.manual_seed(4)
    return model, objective, objective(model, some_batch())


def test_the_lists_are_complete():
    assert len(WITH_AUXILIARY) == 10
    assert len(AUXILIARIES) == 7


@pytest.mark.parametrize("auxiliary", AUXILIARIES)
@pytest.mark.parametrize("method", WITH_AUXILIARY)
def test_every_method_works_with_every_auxiliary_loss(method, auxiliary):
    if method is SelfSupervision and auxiliary in OF_CLASSES:
        with pytest.raises(OptionError, match="needs classes, but self-supervision labels images"):
            loss_of(method(auxiliary=(auxiliary(),)))
        return
    if "steps" in {field.name for field in fields(method)}:
        method = lambda cls=method: cls(steps=1)  # noqa: E731  an inner loop as short as can be
    plain, beside = method(), auxiliary()
    _, _, alone = loss_of(plain)
    model, objective, terms = loss_of(replace(plain, auxiliary=(beside,)))
    assert {*terms.parts} - {*alone.parts} == {beside.name}
    added = terms.parts[beside.name]
    assert torch.isfinite(added)
    torch.testing.assert_close(terms.total, alone.total + beside.weight * added)
    terms.total.backward()
    trained = [*model.parameters(), *objective.parameters()]
    assert all(parameter.grad is not None and parameter.grad.isfinite().all() for parameter in trained)


@pytest.mark.parametrize("method", WITH_AUXILIARY)
def test_opl_and_baseline_of_a_method(method):
    opl, center = auxiliaries.OPL(weight=0.3), auxiliaries.Center()
    both = method(auxiliary=(center, opl))
    assert both.opl == opl
    assert both.baseline() == method(auxiliary=(center,))
    assert method().opl is None
    assert method().baseline() == method()
