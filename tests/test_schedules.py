"""Gamma that changes during training vs loops in float64: values, gradients, state, and several processes."""

import copy
import math

import pytest
import torch
from torch import nn

import opl
from _free_features import features_with
from _gloo import together
from _loss_features import batch, compare_with_one_process, pairs_by_loops, same_by_value_and_gradient
from _said import refuses, says
from opl import AutoGamma, OrthogonalProjectionLoss, Ramp, errors, schedules


def threshold(s, d, classes, each):
    """The gamma at which the pull on d of OPL is 0, for free features in classes of the same size."""
    within = s + (1 - s) / each
    return d * (1 - s) / (d * (1 - d) + (within - d) / (classes - 1))


def positive_batch(seed):
    torch.manual_seed(seed)
    features, labels = batch()
    return features.abs(), labels


@pytest.mark.parametrize("same_weight", [1.0, 2.5])
@pytest.mark.parametrize("form", ["mean_abs", "abs_mean", "mean"])
def test_gamma_auto_is_what_the_running_means_need(form, same_weight):
    rule = AutoGamma(floor=0.2, margin=0.3, momentum=0.5)
    loss = OrthogonalProjectionLoss(gamma=rule, form=form, same_weight=same_weight).double()
    sums, weight = torch.zeros(4, dtype=torch.float64), 0.0
    for seed in range(3):
        features, labels = positive_batch(seed)
        s, d, _ = pairs_by_loops(features, labels)
        classes = len(set(labels.tolist()))
        sums = 0.5 * sums + 0.5 * torch.tensor([s, d, classes, len(labels) / classes])
        weight = 0.5 * weight + 0.5
        gamma = max(0.2, same_weight * float(threshold(*(sums / weight))) + 0.3)

        def by_loops(x, gamma=gamma, labels=labels):
            s, d, _ = pairs_by_loops(x, labels)
            return same_weight * (1 - s) + gamma * d

        same_by_value_and_gradient(loss, by_loops, features, labels)
    before = copy.deepcopy(loss.state_dict())
    loss.eval()(features, labels)
    torch.testing.assert_close(loss.state_dict(), before, rtol=0, atol=0)


def test_gamma_auto_of_few_classes_is_far_below_the_limit_of_many():
    x = features_with(0.424, 0.02, 20, 4).double()
    labels = torch.arange(20).repeat_interleave(4)
    loss = OrthogonalProjectionLoss(gamma=AutoGamma(floor=0.0, margin=0.0)).double()
    gamma = float(loss.diagnose(x, labels).gamma)
    assert gamma == pytest.approx(threshold(0.424, 0.02, 20, 4), rel=1e-6)
    assert gamma < 0.5 * (1 - 0.424) / (1 - 0.02)


SIGNED = (torch.randn(40, 16, generator=torch.Generator().manual_seed(0)), torch.arange(40) % 8)


@pytest.mark.parametrize(
    ("form", "given"),
    [("mean_abs", SIGNED), ("squared", (SIGNED[0].abs(), SIGNED[1]))],
    ids=["cosines of both signs", "squared cosines"],
)
def test_gamma_auto_is_its_floor_where_the_rule_does_not_apply(form, given):
    loss = OrthogonalProjectionLoss(gamma=AutoGamma(floor=0.7, margin=0.3), form=form)
    found = loss.diagnose(*given)
    assert float(found.gamma) == pytest.approx(0.7)
    assert found.gamma_needed.isnan()
    assert not loss.rule.sums.any()


def test_gamma_auto_refuses_references():
    features, labels = positive_batch(0)
    loss = OrthogonalProjectionLoss(gamma="auto").double()
    says(lambda: loss(features, labels, (features, labels)), errors.OptionError, ["references", "number"])


def test_the_gamma_needed_is_relative_to_the_weight_of_s():
    features, labels = positive_batch(0)
    once, twice = (
        OrthogonalProjectionLoss(same_weight=weight).diagnose(features, labels).gamma_needed for weight in (1.0, 2.0)
    )
    torch.testing.assert_close(twice, 2 * once)


def test_a_batch_without_pairs_of_both_kinds_does_not_move_gamma():
    loss = OrthogonalProjectionLoss(gamma="auto")
    loss(*positive_batch(0))
    before = copy.deepcopy(loss.state_dict())
    loss(torch.randn(4, 3).abs(), torch.arange(4))
    loss(torch.randn(4, 3).abs(), torch.zeros(4, dtype=torch.long))
    torch.testing.assert_close(loss.state_dict(), before, rtol=0, atol=0)
    loss(*positive_batch(1))
    assert (loss.rule.sums != before["rule.sums"]).all()


def test_gamma_auto_of_features_in_one_direction_is_finite():
    loss = OrthogonalProjectionLoss(gamma=AutoGamma(floor=0.0))
    for _ in range(3):
        value = loss(torch.ones(4, 3), torch.tensor([0, 0, 1, 1]))
    torch.testing.assert_close(value, torch.tensor(2 / 3 + 0.1))  # two classes of two: e / (e + e / 2), e = 1 - s


@pytest.mark.parametrize("shape", ["linear", "cosine"])
def test_a_ramp_takes_gamma_from_start_to_end(shape):
    loss = OrthogonalProjectionLoss(gamma=Ramp(0.5, 2.0, steps=4, shape=shape)).double()
    features, labels = batch()
    s, d, _ = pairs_by_loops(features, labels)
    ways = [0, 0.25, 0.5, 0.75, 1, 1]
    ways = ways if shape == "linear" else [(1 - math.cos(math.pi * way)) / 2 for way in ways]
    for way in ways:
        torch.testing.assert_close(loss(features, labels), 1 - s + (0.5 + 1.5 * way) * d)
    loss.rule.set_step(2)
    torch.testing.assert_close(loss.diagnose(features, labels).gamma, torch.tensor(1.25, dtype=torch.float64))


def test_a_ramp_starts_after_its_delay():
    rule = schedules.RampedValue(Ramp(1.0, 3.0, steps=2, delay=2))
    assert [rule(torch.zeros(())).item() for _ in range(6)] == [1, 1, 1, 2, 3, 3]


@pytest.mark.parametrize("place", range(4))
@pytest.mark.parametrize("broken", [math.nan, math.inf])
def test_a_batch_that_is_not_finite_does_not_move_gamma(place, broken):
    rule = schedules.gamma_rule("auto")
    inputs = torch.tensor([0.3, 0.2, 4.0, 3.0])
    expected = float(rule(inputs))
    before = copy.deepcopy(rule.state_dict())
    inputs[place] = broken
    assert float(rule(inputs)) == pytest.approx(expected)
    torch.testing.assert_close(rule.state_dict(), before, rtol=0, atol=0)


RULES = {
    "auto": lambda many: OrthogonalProjectionLoss(gamma=AutoGamma(momentum=0.5), global_batch=many),
    "ramp": lambda many: OrthogonalProjectionLoss(gamma=Ramp(0.0, 2.0, steps=3), global_batch=many),
}


def compare_rules(rank: int, sizes: list[int]) -> None:
    compare_with_one_process(rank, sizes, RULES)


@pytest.mark.slow
def test_several_processes_equal_one_in_value_gradient_and_state(tmp_path):
    together(compare_rules, 2, tmp_path, [8, 5])


REFUSALS = {
    "a gamma that is no rule": (lambda: OrthogonalProjectionLoss(gamma="automatic"), errors.OptionError, ["'auto'"]),
    "a gamma that is no number": (lambda: OrthogonalProjectionLoss(gamma=float("nan")), errors.OptionError, ["nan"]),
    "a negative gamma": (lambda: OrthogonalProjectionLoss(gamma=-0.1), errors.OptionError, ["-0.1", "at least 0"]),
    "a ramp without steps": (lambda: Ramp(steps=0), errors.OptionError, ["steps is 0"]),
    "a ramp to a negative gamma": (lambda: Ramp(end=-1.0), errors.OptionError, ["end is -1.0"]),
    "an unknown form": (
        lambda: OrthogonalProjectionLoss(form="mean-abs"),
        errors.OptionError,
        ["did you mean 'mean_abs'"],
    ),
}

test_invalid_input_is_refused_in_one_sentence = refuses(REFUSALS)


@pytest.mark.parametrize("options", [{"gamma": "auto"}, {"gamma": Ramp(0.0, 1.0, steps=5)}, {"form": "mean"}], ids=str)
def test_gamma_and_form_are_options_of_regularize(options):
    model = nn.Linear(4, 3)
    criterion = opl.regularize(nn.CrossEntropyLoss(), model, weight=0.5, **options)
    x, y = torch.randn(6, 4, requires_grad=True), torch.arange(6) % 3
    loss = criterion(model(x), y)
    loss.backward()
    assert loss.isfinite()
    assert x.grad.isfinite().all()
    torch.testing.assert_close(loss.detach(), criterion.last.base + 0.5 * criterion.last.projection)
