"""Schedules vs their definition, step by step."""

import math

import pytest
import torch
from torch import nn

from opl.heads import LGMHead
from opl.optim import SGD, AdamW, Cosine, OneCycle, Staircase, Steps, param_groups


def test_steps_are_the_papers_learning_rates():
    """losses.md: epoch 1 grows from 0; 0.1 to epoch 59; 0.02 from 60; 0.004 from 120; 0.0008 from 160 (from 1)."""
    schedule = Steps(milestones=(59, 119, 159), factor=0.2, warmup=1)
    rates = {epoch: 0.1 * schedule((epoch - 1) * 352, 352, 200) for epoch in (1, 2, 59, 60, 119, 120, 159, 160, 200)}
    expected = {1: 0, 2: 0.1, 59: 0.1, 60: 0.02, 119: 0.02, 120: 0.004, 159: 0.004, 160: 0.0008, 200: 0.0008}
    assert rates == pytest.approx(expected)
    assert 0.1 * schedule(351, 352, 200) == pytest.approx(0.0997, abs=1e-4)


def test_cosine_is_torchs_after_the_warm_up():
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
    theirs = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 50, eta_min=0.1)
    for step in range(50):
        assert Cosine(floor=0.1)(step, 5, 10) == pytest.approx(optimizer.param_groups[0]["lr"])
        optimizer.step()
        theirs.step()
    assert Cosine(warmup=2)(5, 5, 10) == pytest.approx(0.5)
    assert Cosine(warmup=2)(10, 5, 10) == 1


def test_cycles_of_a_cosine_are_torchs_warm_restarts():
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
    theirs = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 20, eta_min=0.1)
    for step in range(60):
        assert Cosine(floor=0.1, cycles=3)(step, 6, 10) == pytest.approx(optimizer.param_groups[0]["lr"])
        optimizer.step()
        theirs.step()
    assert Cosine(cycles=3)(60, 6, 10) == pytest.approx(0)


def test_one_cycle_goes_up_in_a_line_and_down_in_a_cosine():
    schedule = OneCycle(peak=0.5, start=0.1, end=0.01)
    assert schedule(0, 10, 10) == pytest.approx(0.1)
    assert max(schedule(step, 10, 10) for step in range(100)) == pytest.approx(1, abs=0.02)
    assert schedule(99, 10, 10) == pytest.approx(0.01)
    quarter = schedule(74, 10, 10)
    assert quarter == pytest.approx(0.01 + 0.99 * (1 + math.cos(math.pi * (74 / 99 - 0.5) / 0.5)) / 2)


def test_a_staircase_holds_drops_and_decays():
    schedule = Staircase(hold=3, drop=0.1, every=2, factor=0.5)
    rates = [schedule(epoch * 7 + 6, 7, 9) for epoch in range(9)]
    assert rates == pytest.approx([1, 1, 1, 0.1, 0.1, 0.05, 0.05, 0.025, 0.025])


def test_optimizers_get_their_settings():
    parameters = [nn.Parameter(torch.zeros(2))]
    sgd = SGD(lr=0.3, momentum=0.8, weight_decay=1e-3, nesterov=True).build(parameters)
    group = sgd.param_groups[0]
    assert (group["lr"], group["momentum"], group["weight_decay"], group["nesterov"]) == (0.3, 0.8, 1e-3, True)
    assert AdamW(beta1=0.7).build(parameters).param_groups[0]["betas"] == (0.7, 0.999)


def test_parts_have_their_learning_rate_multiplier_also_where_a_parameter_has_options():
    model = nn.ModuleDict({"body": nn.Linear(2, 4), "fc": LGMHead(4, num_classes=3)})
    groups = param_groups(model, lr=0.1, lr_mults={model["fc"]: 5.0})
    rates = {id(parameter): group["lr"] for group in groups for parameter in group["params"]}
    assert len(rates) == len(list(model.parameters()))
    assert {rates[id(parameter)] for parameter in model["body"].parameters()} == {0.1}
    assert rates[id(model["fc"].means)] == pytest.approx(0.1 * 2 * 5)
    assert [group["lr_mult"] for group in groups] == pytest.approx([group["lr"] / 0.1 for group in groups])
