"""Exact accumulation of mini-batches vs one large batch and vs a single graph."""

import copy
from dataclasses import replace

import pytest
import torch
from _small_parts import few
from lightning_fabric import Fabric
from torch import nn

from opl.errors import OptionError
from opl.experiments.methods import (
    LGM,
    OPL,
    AdversarialTraining,
    Center,
    Composite,
    CosFace,
    CrossEntropyOPL,
    NegativeCAM,
)
from opl.experiments.models.network import Network
from opl.experiments.run_folder import RunFolder
from opl.experiments.training.run import run
from opl.experiments.training.step import add_exact_gradients
from opl.experiments.types import Batch, Output, TaskShape
from opl.optim import SGD, Steps

WHOLE = few(
    300, batch_size=128, epochs=2, optimizer=SGD(lr=0.05, momentum=0.9), schedule=Steps(milestones=())
)  # 128, 128 and 44 images


def weights(tmp_path, name, recipe):
    run(recipe, tmp_path / name)
    return RunFolder.of(tmp_path / name, recipe.name, recipe.seed).weights()


METHODS = {
    "opl": CrossEntropyOPL(),
    "centers that are learned": Composite(auxiliary=(OPL(), Center())),
    "a head with a margin": Composite(head=CosFace(scale=10.0)),
    "a head with a penalty": Composite(head=LGM(learn_variances=True)),
}


@pytest.mark.parametrize("kind", METHODS)
def test_four_exact_batches_of_32_train_as_one_of_128(tmp_path, kind):
    recipe = replace(WHOLE, method=METHODS[kind])
    whole = weights(tmp_path, "whole", recipe)
    exact = weights(tmp_path, "exact", replace(recipe, batch_size=32, accumulate=4, accumulation="exact"))
    for name, value in whole.items():
        if value.is_floating_point():  # there are more steps to count
            torch.testing.assert_close(exact[name], value, rtol=0, atol=1e-6)


def test_opl_over_micro_batches_differs_from_the_whole_batch(tmp_path):
    whole = weights(tmp_path, "whole", WHOLE)
    micro = weights(tmp_path, "micro", replace(WHOLE, batch_size=32, accumulate=4))
    assert max((micro[name] - value).abs().max() for name, value in whole.items()) > 1e-4


def test_exact_gradients_are_those_of_one_graph_with_dropout_and_batch_norm():
    """The reference keeps the graphs of all mini-batches, and updates batch norm once with each of them."""
    torch.manual_seed(0)
    parts = {"flatten": nn.Flatten(), "layer": nn.Linear(16, 12), "norm": nn.BatchNorm1d(12), "drop": nn.Dropout(0.3)}
    model = Network(parts, 12, 4)
    other = copy.deepcopy(model)
    objective = CrossEntropyOPL(weight=2.0).build(TaskShape(4, 12))
    batches = [
        Batch(torch.randn(size, 1, 4, 4), torch.randint(0, 4, (size,)), torch.arange(size), 1 / size)
        for size in (6, 6, 3)
    ]

    fabric = Fabric(accelerator="cpu", devices=1)
    wrapped = fabric.setup_module(model)
    add_exact_gradients(fabric, wrapped, objective, enumerate(batches), 3, torch.manual_seed)

    outputs = []
    for step, batch in enumerate(batches):
        torch.manual_seed(step)
        outputs.append(other(batch.images))
    whole = Output(*(torch.cat(part) for part in zip(*outputs, strict=True)))
    images, labels = (torch.cat(part) for part in list(zip(*batches, strict=True))[:2])
    objective(lambda _: whole, Batch(images, labels, torch.arange(15), 1 / 15)).total.backward()

    for ours, theirs in zip(model.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=0, atol=1e-6)
    for ours, theirs in zip(model.buffers(), other.buffers(), strict=True):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("kind", ["maps", "attack"])
def test_methods_that_run_the_model_otherwise_are_refused(tmp_path, kind):
    recipe = replace(WHOLE, accumulate=2, accumulation="exact", epochs=1)
    if kind == "maps":
        recipe = replace(recipe, method=Composite(auxiliary=(NegativeCAM(k=3),)))
    else:
        recipe = replace(recipe, method=AdversarialTraining(), normalize="model")
    with pytest.raises(OptionError, match="accumulation='micro'"):
        run(recipe, tmp_path)
