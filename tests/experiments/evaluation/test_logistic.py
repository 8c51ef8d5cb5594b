"""Batched logistic regression vs scikit-learn, one episode at a time."""

import warnings

import numpy as np
import pytest
import torch
from _classifier_episodes import KINDS, each_of, episodes
from sklearn.linear_model import LogisticRegression
from torch.nn import functional as F

from opl import errors
from opl.experiments.evaluation import logistic as solver
from opl.experiments.evaluation.classifiers import logistic, sklearn_logistic


def exact(support, labels, way, C=1.0):
    """(E, way, D) and (E, way) by scikit-learn's Newton method, to all digits; those of two classes made symmetric."""
    weights, intercepts = [], []
    for rows, ids in each_of(support, labels):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # tol is below the precision
            model = LogisticRegression(C=C, solver="newton-cholesky", tol=1e-12, max_iter=500).fit(rows, ids)
        w, b = model.coef_, model.intercept_
        if way == 2:
            w, b = np.concatenate([-w, w]) / 2, np.concatenate([-b, b]) / 2
        weights.append(w)
        intercepts.append(b - b.mean())
    return torch.from_numpy(np.stack(weights)), torch.from_numpy(np.stack(intercepts))


def objective(weights, intercepts, support, labels, way, C=1.0):
    """(E,) in float64, written out."""
    logits = support.double() @ weights.double().mT + intercepts.double()[:, None]
    labels = labels.expand(logits.shape[:2])
    entropy = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="none").view(labels.shape).sum(1)
    penalty = (weights[:, 1] - weights[:, 0])[:, None] if way == 2 else weights
    return penalty.double().square().sum((1, 2)) / 2 + C * entropy


def assert_solved(support, labels, way, C=1.0, rtol=1e-4):
    """The weights and intercepts of scikit-learn, and no worse an objective."""
    fit = solver.fit(support, labels.expand(support.shape[:2]), way, C)
    weights, intercepts = exact(support, labels, way, C)
    away = (fit.weights - weights).norm(dim=(1, 2))
    assert (away <= rtol * weights.norm(dim=(1, 2)) + 1e-9).all(), away
    torch.testing.assert_close(fit.intercepts.double(), intercepts, rtol=10 * rtol, atol=10 * rtol)
    ours, theirs = (objective(*values, support, labels, way, C) for values in (fit[:2], (weights, intercepts)))
    assert (ours <= theirs * (1 + 1e-6) + 1e-6).all()
    return fit


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("shots", "copies"), [(1, 1), (1, 5), (5, 1), (5, 5)])
def test_weights_and_intercepts_equal_scikit_learn(kind, shots, copies):
    fit = assert_solved(*episodes(shots=shots, copies=copies, kind=kind)[:2], way=5)
    assert fit.weights.dtype == fit.intercepts.dtype == kind
    assert fit.iterations.max() < 40


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", [1e-3, 10.0, 100.0])
@pytest.mark.parametrize("way", [2, 5])
def test_features_of_any_scale(kind, scale, way):
    support, labels, *_ = episodes(way=way, copies=2, scale=scale, kind=kind)
    assert_solved(support, labels, way)


@pytest.mark.parametrize("C", [1e-3, 0.1, 30.0, 1e4])
@pytest.mark.parametrize("way", [2, 3])
def test_any_penalty(C, way):
    support, labels, *_ = episodes(way=way, shots=3, kind=torch.float32)
    assert_solved(support, labels, way, C=C)


def test_many_classes_with_few_rows_and_many_rows_in_few_dimensions():
    assert_solved(*episodes(way=20, shots=1, copies=2)[:2], way=20)
    assert_solved(*episodes(way=3, shots=20, dim=2, kind=torch.float32)[:2], way=3)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_repeated_zero_and_contradictory_rows(kind, scale):
    support, labels, *_ = episodes(shots=3, kind=kind, scale=scale)
    support[0] = support[0, ::3].repeat_interleave(3, dim=0)  # identical copies
    support[1, ::2] = 0
    support[2, 0] = support[2, 3] = support[2, 6]  # one feature, three classes
    support[3] = support[3, 0] + 100  # all rows equal
    support[4] += 7  # far from 0
    assert_solved(support, labels, way=5, rtol=1e-3)


def test_labels_per_episode_and_unequal_class_sizes():
    support, *_ = episodes(count=8, way=4, shots=3)
    chance = torch.Generator().manual_seed(1)
    labels = torch.cat([torch.arange(4).repeat(8, 1), torch.randint(4, (8, 8), generator=chance)], dim=1)
    assert_solved(support, labels, way=4)


def test_gradient_at_the_solution_is_zero():
    support, labels, _, way = episodes(copies=3)
    fit = solver.fit(support, labels.expand(support.shape[:2]), way, tol=1e-9)
    weights, intercepts = fit.weights.requires_grad_(), fit.intercepts.requires_grad_()
    value = objective(weights, intercepts, support, labels, way).sum()
    for gradient in torch.autograd.grad(value, [weights, intercepts]):
        assert gradient.abs().max() < 1e-7


@pytest.mark.parametrize(("shots", "copies"), [(1, 5), (5, 1)])
def test_predictions_equal_scikit_learn(shots, copies):
    given = episodes(count=100, shots=shots, copies=copies, dim=64, kind=torch.float32)
    ours, theirs = logistic(*given), sklearn_logistic(*given)
    answers = torch.arange(5).repeat_interleave(15)
    assert 0.4 < (theirs == answers).double().mean() < 0.95
    assert (ours == theirs).double().mean() >= 0.998


@pytest.mark.parametrize("kind", KINDS)
def test_problems_that_converge_slowly_in_float32_continue_in_float64(kind, monkeypatch):
    monkeypatch.setattr(solver, "QUICK_LIMIT", 2)
    assert_solved(*episodes(kind=kind)[:2], way=5)


def test_problems_that_never_converge_issue_a_warning():
    support, labels, queries, way = episodes(shots=3, scale=1000.0)
    support[:, 0] = support[:, 3]  # one feature, two classes
    with pytest.warns(errors.OplWarning, match="6 logistic regressions did not converge.* divide the features"):
        logistic(support, labels, queries, way)
