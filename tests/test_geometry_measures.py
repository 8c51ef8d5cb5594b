"""Retrieval, neighbors, collapse, calibration and detection vs independent implementations."""

import math
from itertools import product

import numpy as np
import pytest
import torch
import torch.distributed as dist
from pytorch_metric_learning.distances import CosineSimilarity
from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator
from pytorch_metric_learning.utils.inference import CustomKNN
from scipy.optimize import minimize_scalar
from sklearn.metrics import average_precision_score, roc_auc_score, roc_curve
from sklearn.neighbors import KNeighborsClassifier, NearestCentroid
from torch.nn import functional as F
from torchmetrics.classification import MulticlassCalibrationError

from _gloo import together
from _said import refuses
from opl import geometry
from opl.errors import FeatureError, LabelError, OptionError
from opl.geometry import (
    Geometry,
    Reliability,
    calibration,
    collapse,
    detection,
    measure,
    neighbors,
    report,
    retrieval,
    summarize,
)


def clusters(rows=120, classes=5, dim=8, spread=1.0, seed=0, dtype=torch.float64):
    """Features of overlapping classes of unequal size, with their labels."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.cat([torch.arange(classes), torch.randint(classes, (rows - classes,), generator=generator) // 2])
    centers = torch.randn(classes, dim, generator=generator, dtype=dtype)
    return centers[labels] + spread * torch.randn(rows, dim, generator=generator, dtype=dtype), labels


def predictions(rows=400, classes=6, seed=0, dtype=torch.float64):
    """Logits that are often right, with their labels."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(classes, (rows,), generator=generator)
    logits = 2 * torch.randn(rows, classes, generator=generator, dtype=dtype)
    logits[torch.arange(rows), labels] += 2
    return logits, labels


# Retrieval


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("block", [64, 2**20])
def test_retrieval_equals_pytorch_metric_learning(dtype, block, monkeypatch):
    monkeypatch.setattr(geometry, "BLOCK_BYTES", block * 100)
    features, labels = clusters(dtype=dtype)
    calculator = AccuracyCalculator(
        include=("precision_at_1", "mean_average_precision_at_r", "r_precision"),
        k="max_bin_count",
        knn_func=CustomKNN(CosineSimilarity()),
        device=torch.device("cpu"),
    )
    expected = calculator.get_accuracy(features, labels)
    result = retrieval(features, labels)
    assert result.recall_at_1 == pytest.approx(expected["precision_at_1"], abs=1e-6)
    assert result.map_at_r == pytest.approx(expected["mean_average_precision_at_r"], abs=1e-6)
    assert result.r_precision == pytest.approx(expected["r_precision"], abs=1e-6)


def loop_retrieval(features, labels):
    """Rank all other samples of each query, equal similarities of the same class last."""
    units = F.normalize(features, dim=1)
    first, average, precision = [], [], []
    for query in range(len(labels)):
        others = [row for row in range(len(labels)) if row != query]
        same = {row: bool(labels[row] == labels[query]) for row in others}
        others.sort(key=lambda row, query=query, same=same: (-float(units[query] @ units[row]), same[row]))
        limit = sum(same.values())
        if not limit:
            continue
        hits = [same[row] for row in others[:limit]]
        first.append(same[others[0]])
        average.append(sum(sum(hits[: rank + 1]) / (rank + 1) for rank in range(limit) if hits[rank]) / limit)
        precision.append(sum(hits) / limit)
    return [sum(values) / len(values) for values in (first, average, precision)]


@pytest.mark.parametrize("block", [1, 2**20])
def test_retrieval_of_tied_and_single_samples_equals_a_loop(block, monkeypatch):
    monkeypatch.setattr(geometry, "BLOCK_BYTES", block)
    chance = torch.Generator().manual_seed(1)
    features = torch.eye(4, dtype=torch.float64)[torch.randint(4, (40,), generator=chance)]
    features[7] = 0
    labels = torch.randint(3, (40,), generator=chance)
    labels[11] = 9  # the only sample of its class
    assert retrieval(features, labels) == pytest.approx(loop_retrieval(features, labels), abs=1e-9)


def test_constant_features_retrieve_nothing():
    assert retrieval(torch.ones(10, 3), torch.arange(10) % 2) == (0, 0, 0)


# Neighbors


@pytest.mark.parametrize("k", [1, 5, 500])
def test_neighbors_equal_scikit_learn(k, monkeypatch):
    monkeypatch.setattr(geometry, "BLOCK_BYTES", 20_000)
    features, labels = clusters(rows=200, spread=1.5)
    train, test, ids, truth = features[:150], features[150:], labels[:150], labels[150:]
    result = neighbors(train, ids, test, truth, k=k)
    units, queries = (F.normalize(x, dim=1).numpy() for x in (train, test))
    knn = KNeighborsClassifier(
        min(k, 150), metric="cosine", algorithm="brute", weights=lambda d: np.exp((1 - d) / 0.07)
    ).fit(units, ids)
    assert result.knn == pytest.approx(knn.score(queries, truth), abs=1e-12)
    assert result.ncm == pytest.approx(NearestCentroid().fit(units, ids).score(queries, truth), abs=1e-12)
    assert 0.3 < result.knn < 1


def test_classes_that_are_not_in_the_training_set_are_never_predicted():
    train, ids = torch.eye(3), torch.tensor([5, 2, 8])
    assert neighbors(train, ids, train, torch.tensor([5, 3, 8]), k=1) == pytest.approx((2 / 3, 2 / 3))


# Collapse


def numpy_collapse(features, labels):
    x, ids = features.double().numpy(), labels.numpy()
    names = np.unique(ids)
    means = np.stack([x[ids == name].mean(0) for name in names])
    within = sum((row - means[list(names).index(label)])[:, None] * (row - means[list(names).index(label)])
                 for row, label in zip(x, ids, strict=True)) / len(x)  # fmt: skip
    centered = means - means.mean(0)
    between = centered.T @ centered / len(names)
    nc1 = np.trace(within @ np.linalg.pinv(between, rcond=1e-10)) / len(names)
    sizes = np.linalg.svd(x - x.mean(0), compute_uv=False)
    shares = sizes[sizes > 1e-6 * sizes[0]] / sizes[sizes > 1e-6 * sizes[0]].sum()
    units = x / np.linalg.norm(x, axis=1, keepdims=True)

    def cosines(vectors):
        directions = np.stack([vectors[ids == name].mean(0) for name in names])
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        return (directions @ directions.T)[~np.eye(len(names), dtype=bool)]

    return nc1, math.exp(-(shares * np.log(shares)).sum()), cosines(x).mean(), cosines(units).max()


@pytest.mark.parametrize(("classes", "dim"), [(3, 8), (12, 5)])
@pytest.mark.parametrize("flat", [False, True])
def test_collapse_equals_numpy(classes, dim, flat):
    features, labels = clusters(rows=200, classes=classes, dim=dim)
    if flat:  # a dimension without variance
        features[:, 0] = 3
    assert collapse(features, labels) == pytest.approx(numpy_collapse(features, labels), rel=1e-6)
    assert collapse(features.float(), labels) == pytest.approx(numpy_collapse(features, labels), rel=1e-4)


def test_collapse_of_batches_equals_that_of_the_whole_data_set():
    features, labels = clusters()
    parts = [Geometry(8, num_classes=5, moments=True).update(features[i::3], labels[i::3]) for i in range(3)]
    merged = parts[0].merge(parts[1]).merge(parts[2])
    assert merged.collapse() == pytest.approx(collapse(features, labels), rel=1e-9)
    with pytest.raises(OptionError, match="moments=True"):
        measure(features, labels).collapse()
    with pytest.raises(OptionError, match="same num_classes, feature_dim and moments"):
        merged.merge(measure(features, labels))


def test_complete_collapse_has_nc1_0_and_equal_means_have_an_infinite_one():
    labels = torch.arange(12) % 3
    assert collapse(torch.eye(3)[labels], labels).nc1 == pytest.approx(0, abs=1e-12)
    result = collapse(torch.ones(12, 4), labels)
    assert (result.nc1, result.effective_rank) == (math.inf, 0)


# Calibration


def numpy_ece(logits, labels, bins=15):
    p = torch.softmax(logits.double(), 1).numpy()
    confidence, hit = p.max(1), p.argmax(1) == labels.numpy()
    gaps = []
    for low, high in zip(np.arange(bins) / bins, np.arange(1, bins + 1) / bins, strict=True):
        inside = (confidence > low) & (confidence <= high)
        if inside.any():
            gaps.append((inside.mean(), abs(hit[inside].mean() - confidence[inside].mean())))
    return sum(share * gap for share, gap in gaps), max(gap for _, gap in gaps)


def test_calibration_equals_numpy_and_torchmetrics():
    logits, labels = predictions()
    result = calibration(logits, labels)
    assert (result.ece, result.mce) == pytest.approx(numpy_ece(logits, labels), abs=1e-9)
    for name, norm in (("ece", "l1"), ("mce", "max")):
        metric = MulticlassCalibrationError(num_classes=6, n_bins=15, norm=norm)
        assert getattr(result, name) == pytest.approx(metric(logits.softmax(1), labels).item(), abs=1e-6)
    assert result.nll == pytest.approx(F.cross_entropy(logits, labels).item(), abs=1e-9)
    distances = (logits.softmax(1) - F.one_hot(labels, 6)).square().sum(1)
    assert result.brier == pytest.approx(distances.mean().item(), abs=1e-9)


def test_temperature_minimizes_the_likelihood_of_the_first_half():
    logits, labels = predictions(rows=2001)
    result = calibration(3 * logits, labels)
    order = torch.randperm(2001, generator=torch.Generator().manual_seed(0))
    fitted, tested = order[:1000], order[1000:]
    best = minimize_scalar(
        lambda log: F.cross_entropy(3 * logits[fitted] / math.exp(log), labels[fitted]).item(), bounds=(-3, 3)
    )
    assert math.log(result.temperature) == pytest.approx(best.x, abs=1e-3)
    expected = numpy_ece(3 * logits[tested] / result.temperature, labels[tested])[0]
    assert result.scaled_ece == pytest.approx(expected, abs=1e-9)
    assert result.scaled_ece < result.ece / 2


def test_reliability_of_batches_equals_calibration_of_the_whole():
    logits, labels = predictions()
    reliability = Reliability().update(logits[:100], labels[:100])
    reliability.merge(Reliability().update(logits[100:], labels[100:])).update(logits[:0], labels[:0])
    expected = calibration(logits, labels)
    assert [getattr(reliability, name) for name in ("ece", "mce", "nll", "brier")] == pytest.approx(expected[:4])


def test_certain_and_uniform_predictions_fall_into_the_outer_bins():
    reliability = Reliability(bins=4).update(torch.tensor([[1e4, 0.0], [0.0, 0.0]]), torch.tensor([0, 1]))
    assert reliability.counts.tolist() == [0, 1, 0, 1]
    assert reliability.ece == pytest.approx(0.25)


def _sum_over_processes(rank: int) -> None:
    world = 2
    (features, labels), (logits, ids) = clusters(), predictions()
    merged = Geometry(8, num_classes=5, moments=True).update(features[rank::world], labels[rank::world]).all_reduce()
    assert merged.collapse() == pytest.approx(collapse(features, labels), rel=1e-9)
    reliability = Reliability().update(logits[rank::world], ids[rank::world]).all_reduce(dist.group.WORLD)
    assert reliability.ece == pytest.approx(calibration(logits, ids).ece)


@pytest.mark.slow
def test_collapse_and_reliability_over_processes_equal_a_single_process(tmp_path):
    together(_sum_over_processes, 2, tmp_path)


# Detection


def cases():
    chance = np.random.default_rng(0)
    yield "random", chance.normal(1, 1, 200), chance.normal(0, 1, 73)
    yield "tied", chance.integers(2, 6, 200) / 4, chance.integers(0, 5, 73) / 4
    yield "equal", np.ones(10), np.ones(3)
    yield "separated", np.ones(20), np.zeros(20)
    yield "one each", np.array([0.2]), np.array([0.3])


@pytest.mark.parametrize(("name", "inside", "outside"), list(cases()))
def test_detection_equals_scikit_learn_and_a_double_loop(name, inside, outside):
    result = detection(torch.from_numpy(inside), torch.from_numpy(outside))
    truth, scores = np.r_[np.ones(len(inside)), np.zeros(len(outside))], np.r_[inside, outside]
    fpr, tpr, _ = roc_curve(truth, scores, drop_intermediate=False)
    assert result.auroc == pytest.approx(roc_auc_score(truth, scores), abs=1e-9)
    assert result.aupr == pytest.approx(average_precision_score(truth, scores), abs=1e-9)
    assert result.fpr95 == pytest.approx(fpr[np.argmax(tpr >= 0.95)], abs=1e-9)
    wins = [(a > b) + (a == b) / 2 for a, b in product(inside, outside)]
    assert result.auroc == pytest.approx(np.mean(wins), abs=1e-9)


# Report


def test_report_prints_the_values_of_all_measures(capsys):
    features, labels = clusters()
    logits = features[:, :5]
    numbers = report(features, labels, logits)
    assert set(numbers) == set(geometry.MEASURES)
    assert numbers == summarize(features, labels, logits)
    assert numbers["map_at_r"] == retrieval(features, labels).map_at_r
    assert numbers["s"] == measure(features, labels).same
    right = logits.argmax(1) == labels
    confidence = logits.softmax(1).amax(1)
    assert numbers["failure_auroc"] == pytest.approx(roc_auc_score(right, confidence), abs=1e-9)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(numbers)
    assert f"{numbers['map_at_r']:.4f}" in next(line for line in lines if line.startswith("MAP@R"))


def test_summarize_omits_measures_that_are_undefined():
    assert set(summarize(torch.randn(4, 3), torch.zeros(4, dtype=torch.long))) == {"s", "d"}
    assert "recall_at_1" not in summarize(torch.randn(4, 3), torch.arange(4))
    assert "failure_auroc" not in summarize(torch.eye(2), torch.arange(2), torch.eye(2))


def test_ignored_rows_change_nothing():
    (features, labels), (logits, ids) = clusters(), predictions(rows=120)
    more = torch.cat([features, torch.full((3, 8), torch.nan, dtype=torch.float64)])
    hidden = torch.cat([labels, torch.full((3,), -100)])
    assert retrieval(more, hidden) == retrieval(features, labels)
    assert collapse(more, hidden) == collapse(features, labels)
    assert calibration(torch.cat([logits, logits[:3] * torch.nan]), torch.cat([ids, hidden[-3:]])) == calibration(
        logits, ids
    )


X, Y = clusters(rows=12)
NAN = X.clone()
NAN[3, 2] = torch.nan
INVALID = {
    "NaN in retrieval": (lambda: retrieval(NAN, Y), FeatureError, ["features contain NaN"]),
    "NaN in collapse": (lambda: collapse(NAN, Y), FeatureError, ["features contain NaN"]),
    "NaN in neighbors": (lambda: neighbors(X, Y, NAN, Y), FeatureError, ["features contain NaN"]),
    "NaN in calibration": (lambda: calibration(NAN, Y), FeatureError, ["logits contain NaN"]),
    "NaN in detection": (lambda: detection(X[0], NAN[3]), FeatureError, ["scores of outliers contain NaN"]),
    "one class in retrieval": (lambda: retrieval(X, Y * 0), LabelError, ["at least 2 classes"]),
    "one class in collapse": (lambda: collapse(X, Y * 0), LabelError, ["at least 2 classes"]),
    "one sample per class": (lambda: retrieval(X, torch.arange(12)), LabelError, ["every class has one"]),
    "no features": (lambda: retrieval(X[:0], Y[:0]), FeatureError, ["no features to measure"]),
    "no training features": (lambda: neighbors(X[:0], Y[:0], X, Y), FeatureError, ["no features to measure"]),
    "no logits": (lambda: calibration(X[:0], Y[:0]), FeatureError, ["no logits to measure"]),
    "no scores": (lambda: detection(X[0], X[0, :0]), FeatureError, ["no scores of outliers"]),
    "one prediction": (lambda: calibration(X[:1], Y[:1]), LabelError, ["at least 2"]),
    "no predictions": (lambda: Reliability().ece, LabelError, ["at least one sample"]),
    "a label without logit": (lambda: calibration(X, Y + 8), LabelError, ["logits have 8 classes"]),
    "other dimensions": (lambda: neighbors(X, Y, X[:, :3], Y), FeatureError, ["dimension 8 but test features 3"]),
    "zero neighbors": (lambda: neighbors(X, Y, X, Y, k=0), OptionError, ["k is 0"]),
    "other bins": (lambda: Reliability(3).merge(Reliability(4)), OptionError, ["same bins"]),
    "negative labels": (lambda: retrieval(X, Y - 1), LabelError, ["label -1 is negative", "pass ignore_index=-1."]),
}

test_invalid_input_is_refused_in_one_sentence = refuses(INVALID)
