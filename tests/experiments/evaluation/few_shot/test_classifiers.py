"""The classifiers of episodes against scikit-learn's, and what all of them share."""

import doctest
import inspect
from importlib import import_module

import numpy as np
import pytest
import torch
from _classifier_episodes import ALL, DIM, KINDS, each_of, episodes
from sklearn.linear_model import RidgeClassifier
from sklearn.neighbors import KNeighborsClassifier, NearestCentroid

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
)


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


@pytest.mark.parametrize("module", ["classifiers", "checks", "logistic", "chunks", "solver"])
def test_examples(module):
    assert (
        doctest.testmod(
            import_module(f"opl.experiments.evaluation.few_shot.{module}"), extraglobs={"torch": torch}
        ).failed
        == 0
    )
