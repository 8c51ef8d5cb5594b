"""Features of any dimension: PCA against scikit-learn, and what is drawn."""

import numpy as np
import pytest
from _chart_values import legend, space

from opl.experiments.charts import features
from opl.experiments.charts.points import Space


def test_models_are_drawn_side_by_side_on_the_same_axes():
    figure = features.draw([space("CE"), space("CE+OPL")])
    top, second, below, last = figure.axes
    assert top.get_xlim() == second.get_xlim()
    assert below.get_ylim() == last.get_ylim()
    pca = pytest.importorskip("sklearn.decomposition", reason="scikit-learn is not installed").PCA(2)
    given = space()
    drawn = np.concatenate([dots.get_offsets() for dots in top.collections])
    expected = pca.fit_transform(given.features / np.linalg.norm(given.features, axis=1, keepdims=True))
    by_class = expected[np.argsort(given.labels, kind="stable")]
    np.testing.assert_allclose(np.abs(drawn), np.abs(by_class), atol=1e-8)
    share = f"({pca.explained_variance_ratio_.sum():.0%} of the variance)"
    assert top.get_title(loc="left") == f"CE\nunit features by PCA {share}"
    found = features.Cosines(space())
    assert below.get_title(loc="left") == f"cosines of pairs: s {found.s:.2f}, d {found.d:.2f}"
    assert [line.get_xdata()[0] for line in below.get_lines()] == [found.s, found.d]
    for stairs, values in zip(below.patches, (found.same, found.other), strict=True):
        shares, edges, _ = stairs.get_data()
        assert shares.sum() == pytest.approx(1)
        assert shares @ (edges[1:] + edges[:-1]) / 2 == pytest.approx(values.mean(), abs=np.diff(edges)[0])
    assert {"cat", "dog", "owl", "same class, mean s", "other classes, mean |cos| d"} == set(legend(figure))


def test_two_dimensional_features_are_shown_in_their_own_plane_with_the_origin():
    values = np.array([[3.0, 0.0], [5.0, 0.0], [0.0, 2.0]])
    view = features.view(Space("CE", values, np.array([0, 0, 1]), ("a", "b")))
    assert view.note == "mean angle between classes 90.0°"
    np.testing.assert_array_equal(view.points, values)
    scale = (view.positions[1] - view.positions[0])[0] / 2
    np.testing.assert_allclose((view.positions - view.origin) / scale, values * (1, -1), atol=1e-9)


def test_unit_vectors_of_other_features_are_shown_on_their_principal_components():
    given = space(signed=True)
    decomposition = pytest.importorskip("sklearn.decomposition", reason="scikit-learn is not installed")
    units = given.features / np.linalg.norm(given.features, axis=1, keepdims=True)
    pca = decomposition.PCA(2).fit(units)
    view = features.view(given)
    assert view.origin is None
    assert view.note == f"unit features, {100 * pca.explained_variance_ratio_.sum():.0f} % of the variance"
    np.testing.assert_allclose(np.abs(view.points), np.abs(pca.transform(units)), atol=1e-8)


def test_a_zero_feature_has_a_point_too():
    values = np.array([[3.0, 0, 0], [0, 0, 0], [0, 2.0, 1.0]])
    assert np.isfinite(features.view(Space("CE", values, np.array([0, 0, 1]), ("a", "b"))).positions).all()
