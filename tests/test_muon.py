"""Muon with SGD vs singular values, torch's SGD, and its own state."""

import copy

import pytest
import torch
from torch import nn

from opl.optim import COEFFICIENTS, Muon, Triangle, orthogonalize, param_groups


@pytest.mark.parametrize("shape", [(4, 9), (9, 4), (5, 5)], ids=str)
def test_newton_schulz_moves_singular_values_by_its_polynomial(shape):
    matrix = torch.randn(*shape, dtype=torch.float64)
    u, values, v = torch.linalg.svd(matrix, full_matrices=False)
    values = values / (matrix.norm() + 1e-7)
    a, b, c = COEFFICIENTS
    for _ in range(3):
        values = a * values + b * values**3 + c * values**5
    torch.testing.assert_close(orthogonalize(matrix, 3), u * values @ v)
    many = torch.linalg.svdvals(orthogonalize(matrix, 8))
    assert ((many > 0.6) & (many < 1.3)).all()


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(4, 3)).double()


def train(net, optimizer, count, start=0):
    for seed in range(start, start + count):
        x = torch.randn(5, 2, 3, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
        optimizer.zero_grad()
        net(x).square().mean().backward()
        optimizer.step()


def test_all_but_filters_move_as_with_torchs_sgd():
    ours, theirs = network(), network()
    for net in (ours, theirs):
        net[0].weight.requires_grad_(False)
    settings = Muon(lr=0.1, momentum=0.8, weight_decay=0.01)
    train(ours, settings.build(param_groups(ours, lr=0.1)), 3)
    vectors = [value for value in theirs.parameters() if value.ndim == 1]
    groups = [{"params": [theirs[3].weight], "weight_decay": 0.01}, {"params": vectors}]
    train(theirs, torch.optim.SGD(groups, lr=0.1, momentum=0.8, nesterov=True), 3)
    torch.testing.assert_close(ours.state_dict(), theirs.state_dict())


def test_a_step_of_filters_resets_their_norm_and_adds_an_orthogonal_update():
    net = network()
    before = net[0].weight.detach().clone()
    optimizer = Muon(lr=1.0, filter_lr=0.5, filter_momentum=0.6).build(param_groups(net, lr=1.0))
    train(net, optimizer, 1)
    gradient = net[0].weight.grad
    scaled = before * (4**0.5 / before.norm())
    update = orthogonalize((1.6 * gradient).flatten(1), 3).view_as(before)
    torch.testing.assert_close(net[0].weight.detach(), scaled - 0.5 * update)


def test_a_schedule_scales_both_learning_rates_alike():
    optimizer = Muon(lr=1.0, filter_lr=0.25).build(param_groups(network(), lr=1.0))
    rates = {group["filters"]: (group["lr"], group["lr_mult"]) for group in optimizer.param_groups}
    assert rates == {True: (0.25, 0.25), False: (1.0, 1.0)}


def test_it_resumes_where_it_stopped_bit_for_bit():
    straight, stopped = network(), network()
    one, two = (Muon(lr=0.1).build(param_groups(net, lr=0.1)) for net in (straight, stopped))
    train(straight, one, 4)
    train(stopped, two, 2)
    again = network()
    again.load_state_dict(stopped.state_dict())
    three = Muon(lr=0.1).build(param_groups(again, lr=0.1))
    three.load_state_dict(copy.deepcopy(two.state_dict()))
    train(again, three, 2, start=2)
    torch.testing.assert_close(again.state_dict(), straight.state_dict(), rtol=0, atol=0)


def test_a_triangle_goes_up_for_a_quarter_of_training_and_down_to_zero():
    schedule = Triangle(peak=0.25)
    rates = [schedule(step, 10, 10) for step in range(100)]
    assert max(rates) == rates[25] == 1
    assert rates[12] == pytest.approx(13 / 26)
    assert rates[26] == pytest.approx(74 / 75)
    assert rates[99] == pytest.approx(1 / 75)
    assert all(rate > 0 for rate in rates)
