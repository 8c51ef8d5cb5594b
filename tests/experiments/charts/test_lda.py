"""Separation by loops over pairs, and the projection against scikit-learn's."""

import math
from itertools import combinations

import numpy as np
import pytest
from _chart_values import DRAWN, legend, panel, rng

from opl.experiments.charts import lda


def by_pairs(features, labels):
    """Between over within from distances of pairs: n_c times the within scatter of c is the sum over its pairs."""

    def spread(rows):
        return sum(((one - other) ** 2).sum() for one, other in combinations(rows, 2)) / len(rows)

    within = sum(spread(features[labels == label]) for label in np.unique(labels))
    return (spread(features) - within) / within


def test_separation_equals_a_double_loop_and_ignores_rotation_and_scale():
    features, labels = rng().normal(size=(30, 5)), np.arange(30) % 4
    features += labels[:, None]
    expected = by_pairs(features, labels)
    turn, _ = np.linalg.qr(rng().normal(size=(5, 5)))
    assert lda.separation(features, labels) == pytest.approx(expected)
    assert lda.separation(7 * features @ turn + 3, labels) == pytest.approx(expected)
    order = rng().permutation(30)
    assert lda.separation(features[order], 10 - labels[order]) == pytest.approx(expected)
    holed = np.concatenate([features, [[np.inf] * 5]])
    assert lda.separation(holed, np.append(labels, 0)) == pytest.approx(expected)


def test_classes_without_spread_have_infinite_separation_unless_they_coincide():
    assert lda.separation(np.array([[0.0], [1.0]]), np.array([0, 1])) == math.inf
    assert lda.separation(np.array([[1.0], [1.0]]), np.array([0, 1])) == 0


@pytest.mark.parametrize(("samples", "width"), [(60, 5), (20, 64)])
def test_the_projection_equals_scikit_learn_up_to_sign(samples, width):
    analysis = pytest.importorskip("sklearn.discriminant_analysis", reason="scikit-learn is not installed")
    features, labels = rng().normal(size=(samples, width)), np.arange(samples) % 4
    expected = analysis.LinearDiscriminantAnalysis(n_components=2).fit(features, labels).transform(features)
    np.testing.assert_allclose(np.abs(lda.project(features, labels)), np.abs(expected), atol=1e-8)


def test_two_classes_have_one_direction_and_rows_that_are_not_finite_are_nan():
    features, labels = rng().normal(size=(20, 5)), np.arange(20) % 2
    features[3, 2] = np.nan
    points = lda.project(features, labels)
    assert points.shape == (20, 2)
    assert np.isnan(points[3]).all()
    kept = np.delete(points, 3, axis=0)
    assert not kept[:, 1].any()
    np.testing.assert_allclose(kept, lda.project(np.delete(features, 3, axis=0), np.delete(labels, 3)))


def test_classes_that_collapsed_to_points_keep_their_distances():
    labels = np.arange(9) % 3
    np.testing.assert_allclose(lda.project(np.full((9, 4), 0.1), labels), np.zeros((9, 2)), atol=1e-9)
    points = lda.project(np.eye(3)[labels], labels)
    for i, j in combinations(range(9), 2):
        expected = 0 if labels[i] == labels[j] else math.sqrt(2)
        assert np.linalg.norm(points[i] - points[j]) == pytest.approx(expected)


def test_each_row_of_panels_has_one_legend():
    figure = DRAWN["lda"]()
    assert len(figure.axes) == 4
    assert [bool(axes.get_legend()) for axes in figure.axes] == [False, True, False, True]
    assert legend(figure) == ["cat", "dog", "owl", "bee", "fox"]
    assert figure.axes[0].get_title(loc="left") == f"CE\nseparation {panel().separation:.2f}"
