"""The rule for gamma: which way a small step of gradient descent on free features moves s and d."""

import math
from itertools import combinations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import opl
from _free_features import EACH, LABELS, PLACES, change, features_with
from opl.functional import gamma_limit, gamma_needed, orthogonal_projection

RULE = [  # classes, s, d
    (2, 0.5, 0.2),
    (3, 0.9, 0.6),
    (5, 0.3, 0.25),
    (10, 0.6, 0.3),
    (10, 0.94, 0.3),
    (20, 0.424, 0.005),
    (20, 0.8, 0.66),
    (40, 0.5, 0.1),
    (60, 0.7, 0.05),
    (60, 0.31, 0.3),
]


def threshold_by_bisection(x: torch.Tensor, labels: torch.Tensor, form: str) -> float:
    """The gamma at which gradient descent on the features neither lowers nor raises d."""
    x = x.clone().requires_grad_()
    _, same, other = orthogonal_projection(x, labels, form=form)
    to_same, to_other = (torch.autograd.grad(part, x, retain_graph=True)[0] for part in (same, other))

    def rate(gamma: float) -> float:
        return float(((to_same - gamma * to_other) * to_other).sum())

    low, high = 0.0, 4.0
    assert rate(low) > 0 > rate(high)
    while high - low > 1e-9:
        middle = (low + high) / 2
        low, high = (middle, high) if rate(middle) > 0 else (low, middle)
    return low


@pytest.mark.parametrize("signed", [True, False], ids=["signed", "non-negative"])
@pytest.mark.parametrize("form", ["mean", "mean_abs"])
def test_the_gamma_needed_equals_bisection_on_the_gradients(form, signed):
    for classes, s, d in RULE:
        each = 4
        x, labels = features_with(s, d, classes, each, signed), torch.arange(classes).repeat_interleave(each)
        parts = orthogonal_projection(x, labels, form=form)
        assert (float(parts.same), float(parts.other)) == pytest.approx((s, d), abs=1e-9)
        needed = float(gamma_needed(parts.same, parts.other, classes, each))
        assert needed == pytest.approx(threshold_by_bisection(x, labels, form), rel=1e-6), (classes, s, d)
        diagnosis = opl.OrthogonalProjectionLoss(form=form).diagnose(x, labels)
        assert float(diagnosis.gamma_needed) == pytest.approx(needed, rel=1e-6), (classes, s, d)
        assert needed <= (1 - s) / (1 - d) + 1e-9  # the limit of many classes


def test_the_limit_of_many_classes_and_the_case_without_a_threshold():
    assert float(gamma_needed(0.94, 0.30, torch.inf, torch.inf)) == pytest.approx(0.06 / 0.70)
    assert float(gamma_needed(1.0, 1.0, 10, 5)) == pytest.approx(45 / 46)  # collapsed features
    for s, d, classes, each in ((0.5, 0.0, 10, 5), (0.5, -0.1, 10, 5), (0.5, 0.2, 1, 5), (0.5, 0.2, 10, 1)):
        assert gamma_needed(s, d, classes, each).isnan()


def test_the_rule_does_not_apply_to_cosines_of_both_signs():
    """There the mean of |cos| falls for any gamma, or for one that s and d do not tell."""
    x, labels = torch.randn(40, 64), torch.arange(40) % 8
    assert opl.OrthogonalProjectionLoss().diagnose(x, labels).gamma_needed.isnan()
    assert opl.OrthogonalProjectionLoss(form="squared").diagnose(x.abs(), labels).gamma_needed.isnan()
    assert not opl.OrthogonalProjectionLoss().diagnose(x.abs(), labels).gamma_needed.isnan()


@pytest.mark.parametrize("place", PLACES, ids=str)
def test_s_rises_below_the_gamma_limit_and_falls_above_it(place):
    x = features_with(*place)
    found = orthogonal_projection(x, LABELS)
    limit = float(gamma_limit(found.same, found.other, EACH - 1))
    assert change(x, lambda x: orthogonal_projection(x, LABELS, gamma=0.98 * limit).loss)[0] > 0
    assert change(x, lambda x: orthogonal_projection(x, LABELS, gamma=1.02 * limit).loss)[0] < 0


def by_loops(features, labels):
    """The share of samples without a positive, and the largest cosine between class means of unit features."""
    alone = [i for i, a in enumerate(labels) if not any(a == b for j, b in enumerate(labels) if i != j)]
    unit = F.normalize(features.double())
    means = {c: unit[[i for i, a in enumerate(labels) if a == c]].mean(0) for c in set(labels)}
    pairs = [F.cosine_similarity(means[a], means[b], dim=0).item() for a, b in combinations(means, 2)]
    return len(alone) / max(1, len(labels)), max(pairs, default=math.nan)


@pytest.mark.parametrize("labels", [[0, 0, 1, 1, 2, 5], [3, 3, 3], [0, 1, 2], [7]], ids=str)
@pytest.mark.parametrize("traced", [False, True])
def test_the_diagnosis_of_a_batch_equals_loops(labels, traced, monkeypatch):
    if traced:  # the version without reading values, as on an accelerator
        monkeypatch.setattr("opl._kernels.class_sums.may_read_values", lambda x: False)
    x, y = torch.randn(len(labels) + 1, 5), torch.tensor([*labels, -100])
    found = opl.OrthogonalProjectionLoss(gamma=0.7).diagnose(x, y)
    alone, nearest = by_loops(x[:-1], labels)
    assert float(found.without_positive) == pytest.approx(alone)
    assert float(found.class_cosine) == pytest.approx(nearest, abs=1e-6, nan_ok=True)
    assert bool(found.same.isnan()) == (len(set(labels)) == len(labels))  # no pair of the same class
    assert bool(found.other.isnan()) == (len(set(labels)) == 1)
    assert float(found.gamma) == pytest.approx(0.7)
    soft = F.one_hot(y.clamp(min=0), 8).float()
    soft[-1] = -100
    again = opl.OrthogonalProjectionLoss(gamma=0.7).diagnose(x, soft)
    torch.testing.assert_close(torch.stack(again), torch.stack(found), equal_nan=True)


def test_a_criterion_computes_the_gamma_that_its_batch_needs():
    model = nn.Linear(4, 3)
    criterion = opl.regularize(nn.CrossEntropyLoss(), model, gamma=0.1)
    x, y = torch.rand(12, 4, requires_grad=True), torch.arange(12) % 3
    criterion(model(x), y)
    last = criterion.last
    assert float(last.gamma_needed) == pytest.approx(float(gamma_needed(last.same, last.other, 3, 4)), rel=1e-4)
