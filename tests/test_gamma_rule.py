"""The rule for gamma: which way a small step of gradient descent on free features moves s and d."""

import warnings
from itertools import combinations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import opl
from _free_features import CLASSES, EACH, LABELS, PLACES, change, features_with
from opl.errors import OplWarning
from opl.functional import gamma_limit, gamma_needed, orthogonal_projection
from opl.plugin.criterion import GammaWatch


@pytest.mark.parametrize("place", PLACES, ids=str)
def test_d_falls_above_the_gamma_needed_and_rises_below_it(place):
    x = features_with(*place)
    found = orthogonal_projection(x, LABELS)
    assert (float(found.same), float(found.other)) == pytest.approx(place, abs=1e-9)
    needed = float(gamma_needed(found.same, found.other))
    for gamma in (1.05 * needed, 2.0 * needed + 0.1):
        assert change(x, lambda x, g=gamma: orthogonal_projection(x, LABELS, gamma=g).loss)[1] < 0
    low = 0.6 * needed  # with 30 classes, the exact threshold is a little lower than that of many classes
    assert change(x, lambda x: orthogonal_projection(x, LABELS, gamma=low).loss)[1] > 0


@pytest.mark.parametrize("place", PLACES, ids=str)
def test_s_rises_below_the_gamma_limit_and_falls_above_it(place):
    x = features_with(*place)
    found = orthogonal_projection(x, LABELS)
    limit = float(gamma_limit(found.same, found.other, EACH - 1))
    assert change(x, lambda x: orthogonal_projection(x, LABELS, gamma=0.98 * limit).loss)[0] > 0
    assert change(x, lambda x: orthogonal_projection(x, LABELS, gamma=1.02 * limit).loss)[0] < 0


@pytest.mark.parametrize("place", PLACES, ids=str)
def test_the_threshold_for_a_number_of_classes_follows_from_the_gradients(place):
    """Of d: d (1 - s) / (d (1 - d) + (m - d) / (C - 1)), m being the mean cosine in a class with a sample itself."""
    x = features_with(*place).requires_grad_()
    found = orthogonal_projection(x, LABELS)
    to_same, to_other = (torch.autograd.grad(part, x, retain_graph=True)[0] for part in found[1:])
    exact = float((to_same * to_other).sum() / to_other.square().sum())
    s, d = place
    within = s + (1 - s) / EACH
    assert exact == pytest.approx(d * (1 - s) / (d * (1 - d) + (within - d) / (CLASSES - 1)), rel=1e-6)
    assert exact <= float(gamma_needed(*(part.detach() for part in found[1:])))


def test_collapsed_features_need_a_gamma_of_one():
    one = torch.ones(())
    assert float(gamma_needed(one, one)) == pytest.approx(1)


def by_loops(features, labels):
    """The share of samples without a positive, and the largest cosine between class means of unit features."""
    alone = [i for i, a in enumerate(labels) if not any(a == b for j, b in enumerate(labels) if i != j)]
    unit = F.normalize(features.double())
    means = {c: unit[[i for i, a in enumerate(labels) if a == c]].mean(0) for c in set(labels)}
    pairs = [F.cosine_similarity(means[a], means[b], dim=0).item() for a, b in combinations(means, 2)]
    return len(alone) / max(1, len(labels)), max(pairs, default=0.0)


@pytest.mark.parametrize("labels", [[0, 0, 1, 1, 2, 5], [3, 3, 3], [0, 1, 2], [7]], ids=str)
@pytest.mark.parametrize("traced", [False, True])
def test_the_diagnosis_of_a_batch_equals_loops(labels, traced, monkeypatch):
    if traced:  # the version without reading values, as on an accelerator
        monkeypatch.setattr("opl._kernels.class_sums.may_read_values", lambda x: False)
    x, y = torch.randn(len(labels) + 1, 5), torch.tensor([*labels, -100])
    found = opl.OrthogonalProjectionLoss(gamma=0.7).diagnose(x, y)
    alone, nearest = by_loops(x[:-1], labels)
    assert float(found.without_positive) == pytest.approx(alone)
    assert float(found.class_cosine) == pytest.approx(nearest, abs=1e-6)
    assert float(found.gamma) == pytest.approx(0.7)
    torch.testing.assert_close(found.gamma_needed, gamma_needed(found.same, found.other))
    soft = F.one_hot(y.clamp(min=0), 8).float()
    soft[-1] = -100
    again = opl.OrthogonalProjectionLoss(gamma=0.7).diagnose(x, soft)
    torch.testing.assert_close(torch.stack(again), torch.stack(found))


def test_a_criterion_tells_the_diagnosis_and_warns_once_when_gamma_stays_too_small():
    model = nn.Linear(4, 3)
    criterion = opl.regularize(nn.CrossEntropyLoss(), model, gamma=0.1)
    criterion.watch = GammaWatch(steps=3)
    x, y = torch.randn(12, 4), torch.arange(12) % 3
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for _ in range(7):
            criterion(model(x.requires_grad_()), y)
    assert [warning.category for warning in said] == [OplWarning]
    assert "gamma was 0.10 on average over the last 3 steps" in str(said[0].message)
    last = criterion.last
    assert float(last.gamma_needed) == pytest.approx(float((1 - last.same) / (1 - last.other)), rel=1e-4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        enough = opl.regularize(nn.CrossEntropyLoss(), model, gamma="auto")
        enough.watch = GammaWatch(steps=1)
        enough(model(x), y)
