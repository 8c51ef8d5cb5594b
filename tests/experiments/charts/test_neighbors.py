"""The nearest and farthest classes, as text and in the figure."""

import numpy as np
from _chart_values import matrix

from opl.experiments.charts import neighbors, similarity


def test_neighbors_equal_those_found_by_hand():
    names = ("dolphin", "whale", "shark", "oak", "pear")
    values = np.eye(5)
    values[0] = [1.0, 0.71, -0.66, 0.2, -0.001]
    values[1] = [0.71, 1.0, np.nan, 0.3, 0.1]
    got = neighbors.describe_neighbors(similarity.Matrix("CE", values, names), n=2)
    assert len(got) == 5
    assert got[0] == "dolphin: nearest whale 0.71, shark -0.66; farthest pear 0.00, oak 0.20"
    assert got[1] == "whale: nearest dolphin 0.71, oak 0.30; farthest pear 0.10"
    assert neighbors.describe_neighbors(similarity.Matrix("CE", np.ones((1, 1)), ("a",))) == [
        "a: no other class to compare it with"
    ]


def test_the_figure_names_all_of_a_hundred_classes_and_marks_the_nearest_of_each():
    given = matrix(count=100)
    axes = neighbors.draw(given).axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == list(given.class_names)
    [rings] = axes.get_lines()
    for row, column in enumerate(rings.get_xdata()):
        others = [abs(given.values[row, other]) for other in range(100) if other != row]
        assert abs(given.values[row, column]) == max(others)
    assert len(neighbors.draw(matrix(count=300)).axes[0].get_yticklabels()) == 20
