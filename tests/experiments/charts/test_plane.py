"""Features in the plane: directions, angles and the ring around them."""

import math

import numpy as np
import pytest
from _chart_values import at, cloud, legend, written

from opl.experiments.charts import plane
from opl.experiments.charts.points import Space


@pytest.mark.parametrize(
    ("degrees", "expected"),
    [((0, 90), 90), ((0, 60, 90), 60), ((10, 190), 180), ((350, 10), 20), ((45, 45), 0), ((0, 120, 240), 120)],
)
def test_the_mean_angle_is_the_mean_over_pairs(degrees, expected):
    assert plane.mean_angle(at(*degrees)) == pytest.approx(expected, abs=1e-5)


def test_a_direction_is_the_mean_of_unit_features_whatever_their_length():
    features = np.array([[1000.0, 0.0], [0.001, 0.001], [0.0, 0.0], [np.nan, 1.0], [1e200, 1e200]])
    got = plane.directions(Space("CE", features, np.array([0, 0, 1, 1, 3]), ("a", "b", "c", "d")))
    between, half = math.radians(22.5), math.sqrt(0.5)
    np.testing.assert_allclose(got, [[math.cos(between), math.sin(between)], [0, 0], [0, 0], [half, half]])


def test_classes_without_a_direction_make_no_angle():
    opposite = Space("CE", np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0]]), np.array([0, 0, 1]), ("a", "b"))
    assert math.isnan(plane.mean_angle(opposite))
    assert "no angle between classes" in " ".join(written(plane.draw([opposite])))


def test_a_histogram_counts_each_feature_once_in_its_five_degrees():
    degrees = np.array([0.1, 4.9, 5.1, 359.9, 180.1, -90.1])
    units = np.stack([np.cos(np.radians(degrees)), np.sin(np.radians(degrees))], axis=1)
    expected = np.zeros(72)
    for angle in degrees:
        expected[int(angle % 360 // 5)] += 1 / len(degrees)
    np.testing.assert_allclose(plane.angle_histogram(units), expected)
    assert not plane.angle_histogram(units[:0]).any()


def test_every_cloud_has_its_features_its_circle_and_its_angles_in_a_column():
    figure = plane.draw([at(0, 90, label="CE", names=("cat", "dog")), at(0, 60, label="CE+OPL", names=("cat", "dog"))])
    assert len(figure.axes) == 6
    assert legend(figure) == ["cat", "dog"]
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert titles[:2] == ["CE\nfeatures", "CE+OPL\nfeatures"]
    assert titles[4:] == ["angles between classes, mean 90.0°", "angles between classes, mean 60.0°"]
    rays = [line.get_xydata()[1] for line in figure.axes[3].get_lines()]
    np.testing.assert_allclose(rays, [[1, 0], [0.5, math.sqrt(0.75)]])


def test_the_angle_of_each_pair_is_written_once_and_at_most_two_thousand_points_are_drawn():
    many = plane.draw([cloud(samples=9000)])
    assert sum(len(dots.get_offsets()) for dots in many.axes[0].collections) <= 2000
    axes = plane.draw([at(0, 90, 200)]).axes[2]
    assert {word.get_position(): word.get_text() for word in axes.texts} == {(0, 0): "90", (0, 1): "160", (1, 1): "110"}
    assert [label.get_text() for label in axes.get_xticklabels()] == ["class 0", "class 1"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["class 1", "class 2"]
    low, high = axes.images[0].get_clim()
    assert (low + high) / 2 == 90  # right angles are in the middle of the colors
    nowhere = Space("CE", np.array([[0.0, 0.0], [1.0, 0.0]]), np.array([0, 1]), ("a", "b"))
    assert np.isnan(plane.pair_angles(nowhere)).tolist() == [[True, True], [True, False]]
