"""Classifiers of episodes: scikit-learn as reference, common properties, and invalid inputs."""

import numpy as np
import pytest
import torch
from _classifier_episodes import ALL, DIM, KINDS, each_of, episodes
from sklearn.linear_model import RidgeClassifier
from sklearn.neighbors import KNeighborsClassifier, NearestCentroid

from opl import errors
from opl.experiments.evaluation import classifiers
from opl.experiments.evaluation.classifiers import (
    CLASSIFIERS,
    cosine,
    logistic,
    nearest,
    prototypes,
    ridge,
    ridge_scores,
)
from opl.experiments.evaluation.logistic import fit


def test_nearest_equals_scikit_learn_nearest_neighbor():
    given = support, labels, queries, _ = episodes(copies=3)
    for e, (rows, ids) in enumerate(each_of(support, labels)):
        model = KNeighborsClassifier(1, algorithm="brute").fit(rows, ids)
        assert nearest(*given)[e].tolist() == model.predict(queries[e].numpy()).tolist()


def test_cosine_equals_scikit_learn_nearest_neighbor_by_cosine():
    given = support, labels, queries, _ = episodes(copies=3)
    support *= torch.linspace(0.1, 5, support.shape[1])[:, None]
    queries *= torch.linspace(5, 0.1, queries.shape[1])[:, None]
    for e, (rows, ids) in enumerate(each_of(support, labels)):
        model = KNeighborsClassifier(1, metric="cosine").fit(rows, ids)
        assert cosine(*given)[e].tolist() == model.predict(queries[e].numpy()).tolist()
    assert not torch.equal(cosine(*given), nearest(*given))


@pytest.mark.parametrize("shuffled", [False, True])
def test_prototypes_equal_scikit_learn_centroids(shuffled):
    support, labels, queries, way = episodes(count=6, shots=2, copies=5)
    if shuffled:  # also with unequal class sizes
        labels = torch.stack([labels[torch.randperm(50, generator=torch.Generator().manual_seed(e))] for e in range(6)])
        labels[:, :3] = 0
    result = prototypes(support, labels, queries, way)
    for e, (rows, ids) in enumerate(each_of(support, labels)):
        assert result[e].tolist() == NearestCentroid().fit(rows, ids).predict(queries[e].numpy()).tolist()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("way", [2, 5])
@pytest.mark.parametrize("alpha", [0.01, 1.0, 50.0])
@pytest.mark.parametrize("scale", [1.0, 100.0])
def test_ridge_scores_equal_scikit_learn(kind, way, alpha, scale):
    support, labels, queries, _ = episodes(way=way, shots=3, copies=2, kind=kind, scale=scale)
    values = ridge_scores(support, labels.expand(len(support), -1), queries, way, alpha)
    result = ridge(support, labels, queries, way, alpha=alpha)
    for e, (rows, ids) in enumerate(each_of(support, labels)):
        model = RidgeClassifier(alpha=alpha, solver="svd").fit(rows, ids)
        expected = model.decision_function(queries[e].double().numpy())
        mine = values[e, :, 1] if way == 2 else values[e]
        np.testing.assert_allclose(mine.numpy(), expected, atol=2e-4 if kind == torch.float32 else 1e-8)
        assert np.mean(result[e].numpy() == model.predict(queries[e].double().numpy())) > 0.98


def test_predictions_are_precise_far_from_the_origin():
    support, labels, queries, way = episodes(kind=torch.float32)
    for classify in (nearest, prototypes, logistic, ridge):
        moved = classify(support + 64, labels, queries + 64, way)
        exactly = classify(support.add(64).sub(64), labels, queries.add(64).sub(64), way)
        assert (moved == exactly).double().mean() > 0.99


@ALL
@pytest.mark.parametrize("kind", KINDS)
def testclassifiers_and_neighbors_and_threads_change_nothing(name, kind, monkeypatch):
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
            monkeypatch.setattr(classifiers, "WORK_BYTES", count * 100_000)
            assert torch.equal(CLASSIFIERS[name](support, labels, queries, way), whole)
            assert torch.get_num_threads() == count
    finally:
        torch.set_num_threads(threads)


@ALL
def test_labels_may_differ_per_episode_and_have_any_integer_type(name):
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
def test_half_precision_is_computed_in_float32(name, kind):
    support, labels, queries, way = episodes(count=3, queries=3)
    support, queries = support.to(kind), queries.to(kind)
    result = CLASSIFIERS[name](support, labels, queries, way)
    assert torch.equal(result, CLASSIFIERS[name](support.float(), labels, queries.float(), way))


@ALL
def test_features_are_unchanged_and_no_graph_is_built(name):
    support, labels, queries, way = episodes(count=3)
    before = support.clone(), queries.clone()
    CLASSIFIERS[name](support.requires_grad_(), labels, queries, way)
    assert torch.equal(support.detach(), before[0])
    assert torch.equal(queries, before[1])
    assert support.grad is None


@pytest.mark.parametrize("name", [name for name in CLASSIFIERS if name != "scikit-learn"])
def test_ties_go_to_the_first_class(name):
    support, labels, queries, way = episodes(count=5, shots=1, kind=torch.float32)
    support[:, 3] = support[:, 1]  # class 3 equals class 1
    assert 3 not in CLASSIFIERS[name](support, labels, queries, way)
    support[:] = support[:, :1].clone()
    assert not CLASSIFIERS[name](support, labels, queries, way).any()


def test_classifiers_stay_within_the_work_memory(monkeypatch):
    sizes = []

    def spy(support, *arguments):
        sizes.append(support.shape[0] * support.shape[1] * (DIM + support.shape[1]) * 4)
        return fit(support, *arguments)

    monkeypatch.setattr(classifiers, "fit", spy)
    monkeypatch.setattr(classifiers, "WORK_BYTES", 2**20)
    support, labels, queries, way = episodes(count=1, kind=torch.float32, queries=1)
    result = logistic(support.expand(3000, -1, -1), labels, queries.expand(3000, -1, -1), way)
    assert (result == result[0]).all()
    assert max(sizes) <= 2**19
    assert sum(sizes) == 3000 * 25 * (DIM + 25) * 4


X, Y, Q, _ = episodes(count=2, way=3, shots=1, queries=1)
NAN, TOP = X.clone(), X.clone()
NAN[1, 2, 0], TOP[0, 0, 0] = float("nan"), float("inf")
BAD = {
    "NaN in the support": ((NAN, Y, Q, 3), ["the support", "not finite"]),
    "infinity in the support": ((TOP, Y, Q, 3), ["the support", "not finite"]),
    "NaN in the queries": ((X, Y, NAN, 3), ["the queries", "not finite"]),
}


@pytest.mark.parametrize("case", BAD)
def test_features_that_are_not_finite_raise_one_sentence(case):
    arguments, phrases = BAD[case]
    threads = torch.get_num_threads()
    for name, classify in CLASSIFIERS.items():
        with pytest.raises(errors.FeatureError) as caught:
            classify(*arguments)
        message = str(caught.value)
        assert all(phrase in message for phrase in phrases), (name, message)
        assert message.endswith("."), name
        assert torch.get_num_threads() == threads


@pytest.mark.parametrize("classify", [logistic, ridge, nearest, prototypes])
def test_features_too_large_to_multiply_raise(classify):
    with pytest.raises(errors.FeatureError, match="too large"):
        classify(X.float() * 1e30, Y, Q.float() * 1e30, 3)
