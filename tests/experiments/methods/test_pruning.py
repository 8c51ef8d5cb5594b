"""Pruning: the removed filters, the records, and the end of the search."""

import pytest
import torch
from torch import nn

from opl.errors import OptionError
from opl.experiments.methods import Pruning
from opl.experiments.models import Network
from opl.experiments.models.neural_scale import add_gates, gates_of
from opl.experiments.types import Batch, TaskShape

pytestmark = pytest.mark.usefixtures("one_thread")


def network(*widths: int, gates: bool = True) -> Network:
    """A few convolutions with as many filters, and gates."""
    torch.manual_seed(0)
    parts = {}
    for index, (before, width) in enumerate(zip((1, *widths), widths, strict=False)):
        layers = [nn.Conv2d(before, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU()]
        parts[f"layer{index}"] = nn.Sequential(*layers)
    model = Network({**parts, "pool": nn.AdaptiveAvgPool2d(1), "flatten": nn.Flatten()}, widths[-1], 2)
    if gates:
        add_gates(model)
    return model


def batch() -> Batch:
    return Batch(torch.randn(4, 1, 6, 6), torch.tensor([0, 1, 0, 1]), torch.arange(4), 0.25)


def take(objective, model, step: int, importance: tuple[tuple[float, ...], ...] | None = None) -> None:
    """One step of training; the importance that the steps before have found can be given."""
    for gate, values in zip(gates_of(model), importance or (), strict=False):
        gate.importance.copy_(torch.tensor(values))
    objective.clock.set_step(step)
    objective(model, batch()).total.backward()


def widths(model) -> list[int]:
    return [gate.width for gate in gates_of(model)]


def test_least_important_filters_are_removed_after_the_given_number_of_batches():
    model = network(3, 4)
    objective = Pruning(warmup=2, every=3, filters=2, until=1.0).build(TaskShape(2, 4, steps=5))
    for step in range(13):  # measured from step 10 on
        take(objective, model, step)
        assert any(gate.importance.any() for gate in gates_of(model)) == (step >= 10)
        assert widths(model) == [3, 4]
    take(objective, model, 13, ((5.0, 1.0, 6.0), (2.0, 9.0, 8.0, 7.0)))
    first, second = gates_of(model)
    assert (first.open.tolist(), second.open.tolist()) == ([1, 0, 1], [0, 1, 1, 1])
    assert objective.widths == [[2, 3]]
    take(objective, model, 14)
    assert widths(model) == [2, 3]


def test_importance_is_reset_after_a_removal():
    model = network(3, 4)
    objective = Pruning(warmup=0, every=1, filters=1, until=1.0).build(TaskShape(2, 4))
    take(objective, model, 0)
    take(objective, model, 1, ((1e9, 2e9, 3e9), (1e9, 2e9, 3e9, 4e9)))
    assert max(float(gate.importance.max()) for gate in gates_of(model)) < 1e6


def test_widths_are_recorded_once_every_layer_has_lost_a_filter():
    model = network(3, 4)
    objective = Pruning(warmup=0, every=1, filters=1, until=1.0).build(TaskShape(2, 4))
    take(objective, model, 0)
    take(objective, model, 1, ((1, 2, 3), (9, 9, 9, 9)))
    assert objective.widths == []
    take(objective, model, 2, ((1, 9, 9), (2, 9, 9, 9)))  # the closed filter has no importance and does not count
    assert objective.widths == [[2, 3]]
    take(objective, model, 3, ((1, 9, 9), (2, 3, 9, 9)))
    assert objective.widths == [[2, 3], [2, 2]]


def test_widths_are_recorded_at_the_latest_when_the_given_fraction_is_removed():
    model = network(4, 4)
    objective = Pruning(warmup=0, every=1, filters=1, until=1.0, latest=0.25).build(TaskShape(2, 4))
    take(objective, model, 0)
    take(objective, model, 1, ((1, 2, 3, 4), (9, 9, 9, 9)))
    assert objective.widths == []
    take(objective, model, 2, ((0, 2, 3, 4), (9, 9, 9, 9)))  # 2 of 8
    assert objective.widths == [[2, 4]]


def test_gates_keep_half_precision_and_measure_in_it():
    model = network(3, 4)
    objective = Pruning(warmup=0, every=2).build(TaskShape(2, 4))
    kinds = []
    for gate in gates_of(model):
        gate.register_forward_hook(lambda gate, given, out: kinds.append((given[0].dtype, out.dtype)))
    with torch.autocast("cpu", torch.bfloat16):
        take(objective, model, 0)
    assert set(kinds) == {(torch.bfloat16, torch.bfloat16)}
    assert all(gate.importance.dtype == torch.float32 and gate.importance.all() for gate in gates_of(model))


def test_removed_filters_stay_zero_in_training():
    model = network(3, 4)
    objective = Pruning(warmup=0, every=2, filters=2, until=0.9).build(TaskShape(2, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    outputs = []
    for gate in gates_of(model):
        gate.register_forward_hook(lambda gate, _, maps: outputs.append((gate, maps.detach())))
    for step in range(5):
        take(objective, model, step)
        optimizer.step()
        optimizer.zero_grad()
        for gate, maps in outputs:
            assert (maps.abs().amax((0, 2, 3)) == 0).tolist() == (gate.open == 0).tolist()
        outputs.clear()
    assert sum(widths(model)) == 3
    assert not objective.ended


def test_the_search_ends_when_the_wanted_fraction_is_removed():
    model = network(4, 6)
    objective = Pruning(warmup=0, every=1, filters=2, until=0.4).build(TaskShape(2, 6))
    take(objective, model, 0)
    take(objective, model, 1, ((1, 9, 9, 9), (1, 9, 9, 9, 9, 9)))
    assert not objective.ended
    take(objective, model, 2, ((1, 1, 9, 9), (1, 1, 9, 9, 9, 9)))
    assert objective.ended  # four of ten
    take(objective, model, 3, ((1, 1, 1, 9), (1, 1, 1, 9, 9, 9)))
    assert widths(model) == [2, 4]


def test_the_search_ends_before_a_layer_loses_its_last_filter():
    model = network(2, 6)
    objective = Pruning(warmup=0, every=1, filters=2, until=0.95).build(TaskShape(2, 6))
    take(objective, model, 0)
    take(objective, model, 1, ((1, 9), (1, 9, 9, 9, 9, 9)))
    assert (widths(model), objective.ended) == ([1, 5], False)
    take(objective, model, 2, ((0, 1), (0, 1, 9, 9, 9, 9)))
    assert (widths(model), objective.ended) == ([1, 5], True)
    assert objective.widths == [[1, 5]]


def test_a_model_without_gates_is_refused():
    with pytest.raises(OptionError, match="gates=True"):
        take(Pruning().build(TaskShape(2, 4)), network(3, 4, gates=False), 0)
