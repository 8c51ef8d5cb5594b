"""The cosines of pairs as histograms: shares by an independent count, common bins, and a chart of the page."""

from itertools import combinations

import numpy as np
import pytest
from _chart_values import space

from opl.experiments.charts import cosines
from opl.experiments.charts.points import Space


def test_shares_are_those_of_all_pairs_counted_one_by_one():
    one, two = space("CE"), space("CE+OPL", signed=True)
    both = [cosines.Cosines(given) for given in (one, two)]
    edges = cosines.bins(both)
    assert edges[0] == -1  # common to both, and the second has negative cosines
    for made, given in zip(both, (one, two), strict=True):
        units = given.features / np.linalg.norm(given.features, axis=1, keepdims=True)
        counted = {True: [], False: []}
        for i, j in combinations(range(len(units)), 2):
            counted[bool(given.labels[i] == given.labels[j])].append(float(units[i] @ units[j]))
        for shares, alike in zip(made.shares(edges), (True, False), strict=True):
            expected = np.histogram(counted[alike], np.linspace(-1, 1, cosines.BINS + 1))[0] / len(counted[alike])
            assert shares == pytest.approx(expected, abs=2.5 / len(counted[alike]))
            assert shares.sum() == pytest.approx(1)
        for cosine_list, alike in ((made.same, True), (made.other, False)):
            np.testing.assert_allclose(np.sort(cosine_list), np.sort(counted[alike]))
        assert made.s == pytest.approx(np.mean(counted[True]))
        assert made.d == pytest.approx(np.mean(np.abs(counted[False])))
    holed = np.concatenate([two.features, np.zeros((1, 8)), np.full((1, 8), np.nan)])
    ignored = cosines.Cosines(Space("CE", holed, np.append(two.labels, [0, 1]), two.class_names))
    assert (ignored.s, ignored.d) == (both[1].s, both[1].d)  # of features without a direction


def test_the_chart_names_s_and_d_and_its_table_has_every_bin():
    both = [cosines.Cosines(space("<b>CE")), cosines.Cosines(space())]
    edges, first = cosines.bins(both), both[0]
    assert edges[0] == 0  # the features are not negative
    assert cosines.highest(both) == max(shares.max() for made in both for shares in made.shares(edges))
    chart = cosines.to_svg(first, edges, cosines.highest(both))
    assert f"s {first.s:.2f}" in chart
    assert f"d {first.d:.2f}" in chart
    assert "<b>" not in chart
    assert len(cosines.data_table(first, edges).rows) == cosines.BINS


def test_a_single_feature_has_no_pairs():
    alone = cosines.Cosines(Space("CE", np.ones((1, 3)), np.zeros(1, dtype=int), ("a",)))
    edges = cosines.bins([alone])
    assert not np.any(alone.shares(edges))
    assert (alone.s, alone.d) == (0, 0)
    assert cosines.to_svg(alone, edges, cosines.highest([alone]))
