"""The classifiers of episodes against scikit-learn's, an episode at a time; and the supports that break solvers."""

import doctest
import inspect
import warnings
from importlib import import_module

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.neighbors import KNeighborsClassifier, NearestCentroid
from torch.nn import functional as F

from opl import errors
from opl.experiments.evaluation.few_shot import chunks as _portions
from opl.experiments.evaluation.few_shot import logistic as _logistic
from opl.experiments.evaluation.few_shot.classifiers import (
    CLASSIFIERS,
    cosine,
    logistic,
    logistic_fit,
    nearest,
    prototypes,
    ridge,
    ridge_scores,
    sklearn_logistic,
)

DIM = 24
KINDS = (torch.float32, torch.float64)


def episodes(count=6, way=5, shots=5, copies=1, queries=15, dim=DIM, scale=1.0, kind=torch.float64, seed=0):
    """Pooled ReLU features of length `scale`, of classes that overlap; copies are jittered."""
    chance = torch.Generator().manual_seed(seed)

    def noise(*shape):
        return torch.randn(*shape, dim, generator=chance, dtype=torch.float64)

    means = 0.5 + 0.6 * noise(count, way, 1)
    images = means + noise(count, way, shots)
    support = images[:, :, :, None] + 0.4 * noise(count, way, shots, copies)
    asked = means + noise(count, way, queries)
    support, asked = (scale * F.normalize(x.relu(), dim=-1).to(kind) for x in (support, asked))
    labels = torch.arange(way).repeat_interleave(shots * copies)
    return support.reshape(count, -1, dim), labels, asked.reshape(count, -1, dim), way


def each_of(support, labels):
    return zip(support.double().numpy(), labels.expand(len(support), -1).numpy(), strict=True)


def exact(support, labels, way, C=1.0):
    """(E, way, D) and (E, way) by scikit-learn's Newton method, to all digits; those of two classes made symmetric."""
    weights, intercepts = [], []
    for rows, ids in each_of(support, labels):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it asks for more digits than there are
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
    fit = logistic_fit(support, labels, way, C=C)
    weights, intercepts = exact(support, labels, way, C)
    away = (fit.weights - weights).norm(dim=(1, 2))
    assert (away <= rtol * weights.norm(dim=(1, 2)) + 1e-9).all(), away
    torch.testing.assert_close(fit.intercepts.double(), intercepts, rtol=10 * rtol, atol=10 * rtol)
    ours, theirs = (objective(*values, support, labels, way, C) for values in (fit[:2], (weights, intercepts)))
    assert (ours <= theirs * (1 + 1e-6) + 1e-6).all()
    return fit


# Logistic regression


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("shots", "copies"), [(1, 1), (1, 5), (5, 1), (5, 5)])
def test_weights_and_intercepts_are_scikit_learns(kind, shots, copies):
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


def test_more_ways_than_rows_of_a_class_and_more_rows_than_numbers():
    assert_solved(*episodes(way=20, shots=1, copies=2)[:2], way=20)
    assert_solved(*episodes(way=3, shots=20, dim=2, kind=torch.float32)[:2], way=3)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_repeated_rows_rows_of_zeros_and_rows_that_contradict_each_other(kind, scale):
    support, labels, *_ = episodes(shots=3, kind=kind, scale=scale)
    support[0] = support[0, ::3].repeat_interleave(3, dim=0)  # copies that are the same
    support[1, ::2] = 0
    support[2, 0] = support[2, 3] = support[2, 6]  # one feature, three classes
    support[3] = support[3, 0] + 100  # nothing to tell classes by
    support[4] += 7  # far from 0
    assert_solved(support, labels, way=5, rtol=1e-3)


def test_contradictions_at_a_scale_where_gradients_crawl_are_left_to_newton():
    support, labels, *_ = episodes(shots=3, scale=1000.0)
    support[:, 0] = support[:, 3]
    fit = assert_solved(support, labels, way=5, rtol=1e-3)
    assert (fit.iterations > _logistic.LIMIT).any()


def test_labels_of_each_episode_and_classes_of_other_sizes():
    support, *_ = episodes(count=8, way=4, shots=3)
    chance = torch.Generator().manual_seed(1)
    labels = torch.cat([torch.arange(4).repeat(8, 1), torch.randint(4, (8, 8), generator=chance)], dim=1)
    assert_solved(support, labels, way=4)


def test_the_gradient_at_the_solution_is_nothing():
    support, labels, _, way = episodes(copies=3)
    fit = logistic_fit(support, labels, way, tol=1e-9)
    weights, intercepts = fit.weights.requires_grad_(), fit.intercepts.requires_grad_()
    value = objective(weights, intercepts, support, labels, way).sum()
    for gradient in torch.autograd.grad(value, [weights, intercepts]):
        assert gradient.abs().max() < 1e-7


@pytest.mark.parametrize(("shots", "copies"), [(1, 5), (5, 1)])
def test_predictions_are_those_of_scikit_learn(shots, copies):
    given = episodes(count=100, shots=shots, copies=copies, dim=64, kind=torch.float32)
    ours, theirs = logistic(*given), sklearn_logistic(*given)
    answers = torch.arange(5).repeat_interleave(15)
    assert 0.4 < (theirs == answers).double().mean() < 0.95
    assert (ours == theirs).double().mean() >= 0.998


def test_probabilities_from_the_fit_are_scikit_learns():
    support, labels, queries, way = episodes(count=3, way=2)
    fit = logistic_fit(support, labels, way)
    chances = (queries @ fit.weights.mT + fit.intercepts[:, None]).softmax(2)
    for e, (rows, ids) in enumerate(each_of(support, labels)):
        expected = LogisticRegression(tol=1e-10, max_iter=5000).fit(rows, ids).predict_proba(queries[e].numpy())
        np.testing.assert_allclose(chances[e].numpy(), expected, rtol=1e-4)
    assert torch.equal(chances.argmax(2), logistic(support, labels, queries, way))


@pytest.mark.parametrize("limits", [(0, 500, 100), (2, 500, 100), (2, 2, 100)])
def test_what_does_not_converge_goes_on_in_float64_and_then_by_newton(limits, monkeypatch):
    for name, limit in zip(("QUICK_LIMIT", "LIMIT", "NEWTON_LIMIT"), limits, strict=True):
        monkeypatch.setattr(_logistic, name, limit)
    assert_solved(*episodes(kind=torch.float32)[:2], way=5)
    assert_solved(*episodes(kind=torch.float64)[:2], way=5)


@pytest.mark.parametrize("size", [0, 1000])
def test_what_never_converges_is_said(size, monkeypatch):
    for name, value in (("QUICK_LIMIT", 1), ("LIMIT", 1), ("NEWTON_LIMIT", 1), ("NEWTON_SIZE", size)):
        monkeypatch.setattr(_logistic, name, value)
    with pytest.warns(errors.OplWarning, match="6 logistic regressions did not converge") as caught:
        logistic_fit(*episodes()[:2], way=5)
    assert str(caught[0].message).endswith(".")


# The others


def test_nearest_is_scikit_learns_nearest_neighbor():
    given = support, labels, queries, _ = episodes(copies=3)
    for e, (rows, ids) in enumerate(each_of(support, labels)):
        model = KNeighborsClassifier(1, algorithm="brute").fit(rows, ids)
        assert nearest(*given)[e].tolist() == model.predict(queries[e].numpy()).tolist()


def test_cosine_is_scikit_learns_nearest_neighbor_by_cosine():
    given = support, labels, queries, _ = episodes(copies=3)
    support *= torch.linspace(0.1, 5, support.shape[1])[:, None]
    queries *= torch.linspace(5, 0.1, queries.shape[1])[:, None]
    for e, (rows, ids) in enumerate(each_of(support, labels)):
        model = KNeighborsClassifier(1, metric="cosine").fit(rows, ids)
        assert cosine(*given)[e].tolist() == model.predict(queries[e].numpy()).tolist()
    assert not torch.equal(cosine(*given), nearest(*given))


@pytest.mark.parametrize("shuffled", [False, True])
def test_prototypes_are_scikit_learns_centroids_with_copies_too(shuffled):
    support, labels, queries, way = episodes(count=6, shots=2, copies=5)
    if shuffled:  # and classes of other sizes
        labels = torch.stack([labels[torch.randperm(50, generator=torch.Generator().manual_seed(e))] for e in range(6)])
        labels[:, :3] = 0
    found = prototypes(support, labels, queries, way)
    for e, (rows, ids) in enumerate(each_of(support, labels)):
        assert found[e].tolist() == NearestCentroid().fit(rows, ids).predict(queries[e].numpy()).tolist()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("way", [2, 5])
@pytest.mark.parametrize("alpha", [0.01, 1.0, 50.0])
@pytest.mark.parametrize("scale", [1.0, 100.0])
def test_ridge_has_the_values_of_scikit_learns(kind, way, alpha, scale):
    support, labels, queries, _ = episodes(way=way, shots=3, copies=2, kind=kind, scale=scale)
    values = ridge_scores(support, labels.expand(len(support), -1), queries, way, alpha)
    found = ridge(support, labels, queries, way, alpha=alpha)
    for e, (rows, ids) in enumerate(each_of(support, labels)):
        model = RidgeClassifier(alpha=alpha, solver="svd").fit(rows, ids)
        expected = model.decision_function(queries[e].double().numpy())
        mine = values[e, :, 1] if way == 2 else values[e]
        np.testing.assert_allclose(mine.numpy(), expected, atol=2e-4 if kind == torch.float32 else 1e-8)
        assert np.mean(found[e].numpy() == model.predict(queries[e].double().numpy())) > 0.98


def test_distances_keep_their_digits_far_from_0():
    support, labels, queries, way = episodes(kind=torch.float32)
    for classify in (nearest, prototypes, logistic, ridge):
        moved = classify(support + 64, labels, queries + 64, way)
        exactly = classify(support.add(64).sub(64), labels, queries.add(64).sub(64), way)
        assert (moved == exactly).double().mean() > 0.99


# What they share

ALL = pytest.mark.parametrize("name", CLASSIFIERS)


def test_the_names():
    assert list(CLASSIFIERS) == ["logistic", "prototypes", "nearest", "cosine", "ridge", "scikit-learn"]
    for classify in CLASSIFIERS.values():
        assert list(inspect.signature(classify).parameters)[:4] == ["support", "labels", "queries", "way"]


@ALL
@pytest.mark.parametrize("kind", KINDS)
def test_portions_and_neighbors_and_threads_change_nothing(name, kind, monkeypatch):
    support, labels, queries, way = episodes(count=13, shots=3, copies=2, queries=4, kind=kind)
    support[::5] *= 40  # some in float64, some slow
    support[1] = 0
    whole = CLASSIFIERS[name](support, labels, queries, way)
    again = [CLASSIFIERS[name](support[i:j], labels, queries[i:j], way) for i, j in ((0, 1), (1, 4), (4, 13))]
    assert torch.equal(torch.cat(again), whole)
    threads = torch.get_num_threads()
    try:
        for count in (1, 3):
            torch.set_num_threads(count)
            monkeypatch.setattr(_portions, "WORK_BYTES", count * 100_000)
            assert torch.equal(CLASSIFIERS[name](support, labels, queries, way), whole)
            assert torch.get_num_threads() == count
    finally:
        torch.set_num_threads(threads)


@ALL
def test_labels_may_be_those_of_each_episode_and_of_any_integers(name):
    support, labels, queries, way = episodes(count=3, shots=2, queries=3)
    plain = CLASSIFIERS[name](support, labels, queries, way)
    assert plain.shape == (3, 15)
    assert plain.dtype == torch.long
    assert torch.equal(CLASSIFIERS[name](support, labels.expand(3, -1).int(), queries, way), plain)
    order = torch.stack([torch.randperm(10, generator=torch.Generator().manual_seed(e)) for e in range(3)])
    shuffled = support.gather(1, order[..., None].expand(-1, -1, DIM))
    assert torch.equal(CLASSIFIERS[name](shuffled, labels[order].short(), queries, way), plain)


@ALL
def test_no_episodes_and_no_queries(name):
    support, labels, queries, way = episodes(count=2)
    assert CLASSIFIERS[name](support[:0], labels, queries[:0], way).shape == (0, 75)
    assert CLASSIFIERS[name](support, labels, queries[:, :0], way).shape == (2, 0)


@ALL
@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16])
def test_half_precision_is_worked_on_in_float32(name, kind):
    support, labels, queries, way = episodes(count=3, queries=3)
    support, queries = support.to(kind), queries.to(kind)
    found = CLASSIFIERS[name](support, labels, queries, way)
    assert torch.equal(found, CLASSIFIERS[name](support.float(), labels, queries.float(), way))


@ALL
def test_features_are_left_alone_and_no_graph_is_built(name):
    support, labels, queries, way = episodes(count=3)
    before = support.clone(), queries.clone()
    CLASSIFIERS[name](support.requires_grad_(), labels, queries, way)
    assert torch.equal(support.detach(), before[0])
    assert torch.equal(queries, before[1])
    assert support.grad is None
    fit = logistic_fit(support, labels, way)
    assert not fit.weights.requires_grad


@pytest.mark.parametrize("name", [name for name in CLASSIFIERS if name != "scikit-learn"])
def test_the_first_of_equals_is_taken(name):
    support, labels, queries, way = episodes(count=5, shots=1, kind=torch.float32)
    support[:, 3] = support[:, 1]  # nothing tells class 3 from class 1
    assert 3 not in CLASSIFIERS[name](support, labels, queries, way)
    support[:] = support[:, :1].clone()
    assert not CLASSIFIERS[name](support, labels, queries, way).any()


def test_portions_stay_within_the_work_memory(monkeypatch):
    sizes = []

    def spy(support, *arguments):
        sizes.append(support.shape[0] * support.shape[1] * (DIM + support.shape[1]) * 4)
        return _logistic.fit(support, *arguments)

    monkeypatch.setattr("opl.experiments.evaluation.few_shot.classifiers.fit", spy)
    monkeypatch.setattr(_portions, "WORK_BYTES", 2**20)
    support, labels, queries, way = episodes(count=1, kind=torch.float32, queries=1)
    found = logistic(support.expand(3000, -1, -1), labels, queries.expand(3000, -1, -1), way)
    assert (found == found[0]).all()
    assert max(sizes) <= 2**19
    assert sum(sizes) == 3000 * 25 * (DIM + 25) * 4


X, Y, Q, _ = episodes(count=2, way=3, shots=1, queries=1)
NAN, TOP = X.clone(), X.clone()
NAN[1, 2, 0], TOP[0, 0, 0] = float("nan"), float("inf")
BAD = {
    "a label too many": ((X, Y + 1, Q, 3), errors.LabelError, ["label 3", "(0 to 2)"]),
    "a negative label": ((X, Y - 1, Q, 3), errors.LabelError, ["label -1"]),
    "a class that is not there": ((X, Y, Q, 4), errors.LabelError, ["class 3", "episode 0"]),
    "one not in the second": ((X, torch.tensor([[0, 1, 2], [0, 0, 2]]), Q, 3), errors.LabelError, ["1", "episode 1"]),
    "float labels": ((X, Y.float(), Q, 3), errors.LabelError, ["torch.float32", "labels.long()"]),
    "a list of labels": ((X, [0, 1, 2], Q, 3), errors.LabelError, ["list"]),
    "too few labels": ((X, Y[:2], Q, 3), errors.LabelError, ["(2,)", "(3,) or (2, 3)"]),
    "labels of other episodes": ((X, Y.expand(3, 3), Q, 3), errors.LabelError, ["(3, 3)", "(3,) or (2, 3)"]),
    "one class": ((X, Y, Q, 1), errors.OptionError, ["way is 1", "at least 2"]),
    "one episode": ((X[0], Y, Q[0], 3), errors.FeatureError, ["(3, 24)", "support[None]"]),
    "queries of one episode": ((X, Y, Q[0], 3), errors.FeatureError, ["(3, 24)", "queries[None]"]),
    "queries of other episodes": ((X, Y, Q[:1], 3), errors.FeatureError, ["(1, 3, 24)", "same episodes"]),
    "shorter queries": ((X, Y, Q[..., :5], 3), errors.FeatureError, ["(2, 3, 5)", "as many numbers"]),
    "features of nothing": ((X[..., :0], Y, Q[..., :0], 3), errors.FeatureError, ["(2, 3, 0)"]),
    "integer features": ((X.long(), Y, Q, 3), errors.FeatureError, ["torch.int64", "support.float()"]),
    "an array": ((X.numpy(), Y, Q, 3), errors.FeatureError, ["ndarray", "torch.Tensor"]),
    "no number in the support": ((NAN, Y, Q, 3), errors.FeatureError, ["the support", "not finite"]),
    "infinity in the support": ((TOP, Y, Q, 3), errors.FeatureError, ["the support", "not finite"]),
    "no number in the queries": ((X, Y, NAN, 3), errors.FeatureError, ["the queries", "not finite"]),
}


@ALL
@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_used_gets_its_sentence(name, case):
    given, kind, words = BAD[case]
    threads = torch.get_num_threads()
    with pytest.raises(kind) as caught:
        CLASSIFIERS[name](*given)
    for word in words:
        assert word in str(caught.value), caught.value
    assert str(caught.value).endswith(".")
    assert torch.get_num_threads() == threads


@pytest.mark.parametrize("classify", [logistic, ridge, nearest, prototypes])
def test_features_too_large_to_multiply_get_their_sentence(classify):
    with pytest.raises(errors.FeatureError, match="too large"):
        classify(X.float() * 1e30, Y, Q.float() * 1e30, 3)


@pytest.mark.parametrize(
    ("classify", "options"),
    [(logistic, {"C": 0.0}), (logistic, {"tol": -1.0}), (ridge, {"alpha": 0.0}), (sklearn_logistic, {"C": -2.0})],
)
def test_options_that_mean_nothing_are_refused(classify, options):
    (name, value), *_ = options.items()
    with pytest.raises(errors.OptionError, match=f"{name} is {value}: give a finite number above 0"):
        classify(X, Y, Q, 3, **options)


@pytest.mark.parametrize("module", ["classifiers", "checks", "logistic", "chunks", "solver"])
def test_examples(module):
    assert (
        doctest.testmod(
            import_module(f"opl.experiments.evaluation.few_shot.{module}"), extraglobs={"torch": torch}
        ).failed
        == 0
    )
