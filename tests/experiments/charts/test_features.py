"""Features of any dimension: cosines against a double loop, PCA against scikit-learn, and what is drawn."""

from itertools import combinations

import numpy as np
import pytest
from _chart_values import legend, space

from opl.errors import OptionError
from opl.experiments.charts import features
from opl.experiments.charts.points import Space

pytest.importorskip("matplotlib", reason="matplotlib is not installed")


def test_cosines_equal_a_double_loop_and_ignore_features_without_a_direction():
    given = space(signed=True)
    values = np.concatenate([given.features, np.zeros((1, 8)), np.full((1, 8), np.nan)])
    holed = Space("CE", values, np.append(given.labels, [0, 1]), given.class_names)
    same, other = [], []
    for i, j in combinations(range(len(given.labels)), 2):
        one, two = given.features[i], given.features[j]
        cosine = one @ two / np.linalg.norm(one) / np.linalg.norm(two)
        (same if given.labels[i] == given.labels[j] else other).append(cosine)
    found = features.Cosines(holed)
    np.testing.assert_allclose(np.sort(found.same), np.sort(same))
    np.testing.assert_allclose(np.sort(found.other), np.sort(other))
    assert (found.s, found.d) == pytest.approx((np.mean(same), np.mean(np.abs(other))))
    alone = features.Cosines(Space("CE", np.ones((1, 3)), np.zeros(1, dtype=int), ("a",)))
    assert (alone.s, alone.d) == (0, 0)


def test_the_plane_equals_the_pca_of_scikit_learn_up_to_sign():
    pca = pytest.importorskip("sklearn.decomposition", reason="scikit-learn is not installed").PCA(2)
    given = space(signed=True)
    units = given.features / np.linalg.norm(given.features, axis=1, keepdims=True)
    points, labels, part = features.project(given)
    np.testing.assert_allclose(np.abs(points), np.abs(pca.fit_transform(units)), atol=1e-8)
    assert part == pytest.approx(pca.explained_variance_ratio_.sum())
    assert labels.tolist() == given.labels.tolist()


def test_models_are_drawn_side_by_side_on_the_same_axes():
    figure = features.draw([space("CE"), space("CE+OPL")])
    top, second, below, last = figure.axes
    assert top.get_xlim() == second.get_xlim()
    assert below.get_ylim() == last.get_ylim()
    assert top.get_title(loc="left").startswith("CE\nunit features by PCA (")
    found = features.Cosines(space())
    assert below.get_title(loc="left") == f"cosines of pairs: s {found.s:.2f}, d {found.d:.2f}"
    assert [line.get_xdata()[0] for line in below.get_lines()] == [found.s, found.d]
    for stairs, values in zip(below.patches, (found.same, found.other), strict=True):
        shares, edges, _ = stairs.get_data()
        assert shares.sum() == pytest.approx(1)
        assert shares @ (edges[1:] + edges[:-1]) / 2 == pytest.approx(values.mean(), abs=np.diff(edges)[0])
    assert {"cat", "dog", "owl", "same class, mean s", "other classes, mean |cos| d"} == set(legend(figure))


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Space("CE", np.zeros((0, 4)), np.zeros(0), ("a",)),
        lambda: Space("CE", np.zeros((3, 4)), np.zeros(2), ("a",)),
    ],
)
def test_arrays_that_are_no_feature_space_are_refused(wrong):
    with pytest.raises(OptionError, match="give"):
        wrong()


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
