"""The cosines of pairs as histograms: shares by an independent count, common bins, and a chart of the page."""

from itertools import combinations

import numpy as np
import pytest
from _chart_values import space

from opl.experiments.charts import cosines
from opl.experiments.charts.points import Space


def test_shares_are_those_of_all_pairs_counted_one_by_one():
    one, two = space("CE"), space("CE+OPL", signed=True)
    for made, given in zip(cosines.histograms(one, two), (one, two), strict=True):
        assert made.edges[0] == -1  # common to both, and the second has negative cosines
        units = given.features / np.linalg.norm(given.features, axis=1, keepdims=True)
        counted = {True: [], False: []}
        for i, j in combinations(range(len(units)), 2):
            counted[bool(given.labels[i] == given.labels[j])].append(float(units[i] @ units[j]))
        for shares, alike in ((made.same, True), (made.other, False)):
            expected = np.histogram(counted[alike], np.linspace(-1, 1, cosines.BINS + 1))[0] / len(counted[alike])
            assert shares == pytest.approx(expected, abs=2.5 / len(counted[alike]))
            assert shares.sum() == pytest.approx(1)
        assert made.s == pytest.approx(np.mean(counted[True]))
        assert made.d == pytest.approx(np.mean(np.abs(counted[False])))


def test_non_negative_features_have_bins_from_0_to_1():
    made = cosines.histograms(space("CE"), space("CE+OPL"))
    assert made[0].edges[0] == 0
    assert cosines.highest(made) == max(part.max() for each in made for part in (each.same, each.other))


def test_the_chart_names_s_and_d_and_its_table_has_every_bin():
    first, _ = made = cosines.histograms(space("<b>CE"), space())
    chart = cosines.to_svg(first, cosines.highest(made))
    assert f"s {first.s:.2f}" in chart
    assert f"d {first.d:.2f}" in chart
    assert "<b>" not in chart
    assert len(cosines.data_table(first).rows) == cosines.BINS


def test_a_single_feature_has_no_pairs():
    alone = Space("CE", np.ones((1, 3)), np.zeros(1, dtype=int), ("a",))
    made = cosines.histograms(alone, alone)
    assert made[0].same.sum() == made[0].other.sum() == 0
    assert cosines.to_svg(made[0], cosines.highest(made))
