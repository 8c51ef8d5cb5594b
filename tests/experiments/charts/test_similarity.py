"""Matrices of cosines: their mean, their order, their cells and their change."""

from itertools import permutations

import numpy as np
import pytest
from _chart_values import matrix

from opl.experiments.charts import similarity


def test_the_off_diagonal_mean_equals_a_double_loop():
    given = matrix(count=7)
    pairs = [abs(given.values[i, j]) for i, j in permutations(range(7), 2)]
    assert similarity.off_diagonal_mean(given) == pytest.approx(sum(pairs) / len(pairs))


def test_a_class_without_samples_is_not_in_the_mean():
    values = np.array([[1.0, 0.5, np.nan], [0.5, 1.0, np.nan], [np.nan] * 3])
    assert similarity.off_diagonal_mean(similarity.Matrix("CE", values, ("a", "b", "c"))) == 0.5
    assert similarity.off_diagonal_mean(similarity.Matrix("CE", np.ones((1, 1)), ("a",))) == 0


@pytest.mark.parametrize(
    "order",
    [("class", (0,) * 6), ("cluster", (0,) * 6), ("superclass", (2, 0, 1, 2, 0, 1))],
    ids=lambda order: order[0],
)
def test_another_order_keeps_the_value_of_every_pair_of_names(order):
    given = matrix()
    got = similarity.reorder(given, *order)
    assert sorted(got.class_names) == sorted(given.class_names)
    for one, other in permutations(given.class_names, 2):
        before = given.values[given.class_names.index(one), given.class_names.index(other)]
        assert got.values[got.class_names.index(one), got.class_names.index(other)] == before


def test_clusters_are_contiguous_and_groups_keep_their_order():
    pairs = {("whale", "shark"), ("pear", "apple"), ("bus", "tram")}
    names = ("whale", "pear", "bus", "apple", "tram", "shark")
    values = np.array([[1.0 if a == b else 0.9 if {(a, b), (b, a)} & pairs else 0.1 for b in names] for a in names])
    values[0, 5] = values[5, 0] = -0.9  # opposite is as far from orthogonal as equal
    given = similarity.Matrix("CE", values, names)
    got = similarity.reorder(given, "cluster", (0,) * 6).class_names
    assert {frozenset(got[i : i + 2]) for i in (0, 2, 4)} == {frozenset(pair) for pair in pairs}
    grouped = similarity.reorder(given, "superclass", (1, 0, 1, 0, 1, 1)).class_names
    assert grouped == ("pear", "apple", "whale", "bus", "tram", "shark")


def test_classes_without_samples_can_be_clustered_too():
    values = np.full((3, 3), np.nan)
    values[:2, :2] = [[1.0, 0.4], [0.4, 1.0]]
    given = similarity.Matrix("CE", values, ("a", "b", "c"))
    assert len(similarity.reorder(given, "cluster", (0,) * 3).class_names) == 3


def positive(label, count=6, names=None):
    given = matrix(label, count, names)
    return similarity.Matrix(label, np.abs(given.values), given.class_names)


def test_matrices_share_one_scale_and_their_titles_have_the_mean():
    figure = similarity.draw([positive("CE"), positive("CE+OPL")])
    assert len(figure.axes) == 3  # two and the color bar
    images = [axes.images[0] for axes in figure.axes[:2]]
    assert {image.get_clim() for image in images} == {(0, 1)}
    np.testing.assert_array_equal(images[0].get_array(), np.abs(matrix().values))
    mean = similarity.off_diagonal_mean(matrix())
    assert [axes.get_title(loc="left") for axes in figure.axes[:2]] == [
        f"{label}\nmean |cos| between classes {mean:.3f}" for label in ("CE", "CE+OPL")
    ]
    assert figure.axes[2].get_ylabel().startswith("|cos|: 0 ")


def test_cosines_of_both_signs_are_drawn_on_a_scale_that_is_white_at_right_angles():
    figure = similarity.draw([positive("CE"), matrix("ViT")])
    images = [axes.images[0] for axes in figure.axes[:2]]
    assert {image.get_clim() for image in images} == {(-1, 1)}
    np.testing.assert_array_equal(images[1].get_array(), matrix().values)
    assert min(images[1].cmap(images[1].norm(0.0))[:3]) > 0.95
    assert images[1].cmap(0.9) != images[1].cmap(0.1)
    assert figure.axes[2].get_ylabel().startswith("cos: ")


@pytest.mark.parametrize(("cosine", "signed"), [(-1e-5, False), (-0.01, False), (-0.03, True), (np.nan, False)])
def test_a_cosine_just_below_zero_does_not_change_the_scale(cosine, signed):
    values = np.array([[1.0, cosine], [np.nan, 1.0]])
    assert similarity.is_signed([positive("CE"), similarity.Matrix("SiLU", values, ("a", "b"))]) is signed


@pytest.mark.parametrize(("count", "shown"), [(30, 30), (31, 7), (100, 20)])
def test_beyond_thirty_classes_every_fifth_is_named(count, shown):
    axes = similarity.draw([matrix(count=count)]).axes[0]
    labels = [label.get_text() for label in axes.get_yticklabels()]
    assert labels == [f"class {i}" for i in range(0, count, 1 if count == 30 else 5)]
    assert len(labels) == len(axes.get_xticklabels()) == shown


def test_the_page_has_before_after_and_the_change_of_the_absolute_cosine():
    before, after = matrix("CE"), positive("CE+OPL")
    panels = similarity.compare(before, after, [[0, 1], [3]])
    assert [panel.caption for panel in panels] == ["CE", "CE+OPL", "change of |cos|"]
    means = [similarity.off_diagonal_mean(made) for made in (before, after)]
    assert panels[0].note == f"mean of 2 seeds, mean |cos| between class means {means[0]:.3f}"
    assert panels[1].note == f"seed 3, mean |cos| between class means {means[1]:.3f}"
    np.testing.assert_allclose(panels[2].values, np.abs(after.values) - np.abs(before.values))
    assert panels[2].low == -panels[2].high
    assert {panel.low for panel in panels[:2]} == {-1}  # the first matrix has negative cosines
    assert {panel.low for panel in similarity.compare(after, after, [[0], [0]])[:2]} == {0}


def test_the_script_gets_the_lower_half_in_thousandths_and_every_order_of_classes():
    given = matrix(count=5)
    orders = similarity.class_orders(given, (1, 0, 1, 0, 0))
    assert orders["class"] == [0, 1, 2, 3, 4]
    assert orders["super-class"] == [1, 3, 4, 0, 2]
    assert sorted(orders["cluster of CE"]) == [0, 1, 2, 3, 4]
    assert "super-class" not in similarity.class_orders(given, ())
    panels = similarity.compare(given, given, [[0], [0]])
    values = similarity.script_values(panels, list(orders.values()), given.class_names)
    for row in range(5):
        for column in range(row + 1):
            assert values["cells"][1][row][column] == pytest.approx(1000 * given.values[row, column], abs=0.51)


def test_the_data_table_has_the_pairs_that_changed_most():
    before, after = np.eye(3), np.eye(3)
    after[1, 0] = after[0, 1] = -0.5
    after[2, 0] = after[0, 2] = 0.1
    names = ("cat", "dog", "owl")
    panels = similarity.compare(similarity.Matrix("a", before, names), similarity.Matrix("b", after, names), [[0], [0]])
    assert similarity.data_table(panels, names).rows == [
        ("cat and dog", "0.000", "-0.500", "+0.500"),
        ("cat and owl", "0.000", "0.100", "+0.100"),
        ("dog and owl", "0.000", "0.000", "+0.000"),
    ]
