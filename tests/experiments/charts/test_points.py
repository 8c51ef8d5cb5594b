"""Labeled points: thinned by class, projected like scikit-learn's PCA, and placed on the page without distortion."""

import re

import numpy as np
import pytest
from _chart_values import rng

from opl.experiments.charts import points


def test_points_are_thinned_by_class_even_if_classes_alternate():
    labels = np.arange(9000) % 3
    _, kept = points.thin_out(rng().normal(size=(9000, 2)), labels, 600)
    assert np.bincount(kept).tolist() == [200, 200, 200]


def test_the_principal_plane_equals_scikit_learn_up_to_sign():
    pca = pytest.importorskip("sklearn.decomposition", reason="scikit-learn is not installed").PCA(2)
    features = rng().normal(size=(50, 8)) * np.arange(1, 9)
    found, share = points.principal_plane(features)
    np.testing.assert_allclose(np.abs(found), np.abs(pca.fit_transform(features)), atol=1e-8)
    assert share == pytest.approx(pca.explained_variance_ratio_.sum())
    turned, _ = points.principal_plane(features @ np.linalg.qr(rng().normal(size=(8, 8)))[0])
    np.testing.assert_allclose(turned, found, atol=1e-8)  # the sign does not depend on the basis
    assert points.principal_plane(np.zeros((0, 3)))[0].shape == (0, 2)


def test_positions_keep_distances_and_stay_inside_the_chart():
    given = rng().normal(size=(40, 2)) * (5, 1) + 30
    for origin in (False, True):
        found = points.to_positions(given, origin)
        assert len(found) == 40 + origin
        assert found.min() >= points.MARGIN - 1e-6
        assert found.max() <= points.SIDE - points.MARGIN + 1e-6
        scale = np.linalg.norm(found[0] - found[1]) / np.linalg.norm(given[0] - given[1])
        far = np.linalg.norm(found[3] - found[7]) / np.linalg.norm(given[3] - given[7])
        assert far == pytest.approx(scale)
        assert np.sign(found[0, 1] - found[1, 1]) == -np.sign(given[0, 1] - given[1, 1])  # up is up


def test_every_point_is_drawn_once_in_the_series_of_its_class():
    positions, labels = rng().uniform(0, 400, (30, 2)), np.arange(30) % 3
    chart = points.to_svg("three classes", positions, labels)
    drawn = {int(series): path for path, series in re.findall(r'<path d="([^"]*)"[^>]*data-series="(\d+)"', chart)}
    for index in range(3):
        starts = [tuple(map(float, start)) for start in re.findall(r"M([\d.]+) ([\d.]+)", drawn[index])]
        np.testing.assert_allclose(starts, positions[labels == index], atol=0.01)


def test_the_table_has_the_center_and_spread_of_each_class():
    given = np.array([[0.0, 0.0], [2.0, 0.0], [5.0, 7.0]])
    table = points.class_table("x", given, np.array([0, 0, 2]), ("a", "b", "c"))
    assert table.rows == [("a", 2, "1", "0", "1"), ("c", 1, "5", "7", "0")]
