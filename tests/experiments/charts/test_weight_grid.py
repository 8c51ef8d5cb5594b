"""Table 8 as heat maps: differences paired by seed, the significant ones marked, beside the paper's."""

import math

import numpy as np
import pytest
from _chart_values import rows_with, written

from _runs import opl
from opl.experiments.charts import weight_grid
from opl.experiments.charts.forest import Contrast
from opl.experiments.item import Row
from opl.experiments.statistics import decide, interval

PAIRS = {(0.5, 2.0): (3.0, 3.1, 2.9), (0.5, 0.5): (0.1, -0.2, 0.3), (1.0, 2.0): (-2.0, -1.0, -1.6)}


def cells(pairs):
    differences = [interval(values) for values in pairs.values()]
    contrasts = zip(differences, decide(differences, [()] * len(pairs)), pairs.values(), strict=True)
    return [
        weight_grid.Cell(*pair, Contrast("", *contrast), 70.0 + place)
        for place, (pair, contrast) in enumerate(zip(pairs, contrasts, strict=True))
    ]


def test_cells_significant_after_adjustment_are_framed_and_those_significant_alone_have_a_dot():
    t = pytest.importorskip("scipy.stats", reason="scipy is not installed")
    p = {pair: t.ttest_1samp(values, 0).pvalue for pair, values in PAIRS.items()}
    assert p[0.5, 2.0] * 3 < 0.05 < p[0.5, 0.5]
    assert p[1.0, 2.0] < 0.05 < 2 * p[1.0, 2.0]
    figure = weight_grid.draw(cells(PAIRS))
    left, right = figure.axes
    [frame] = left.patches
    assert np.allclose(frame.get_center(), (0, 0))  # gamma 2 is the first column, weight 0.5 the first row
    texts = {tuple(text.get_position()): text.get_text() for text in left.texts}
    assert texts[0, 0] == "+3.00 •\n+3.0 +3.1 +2.9"  # fewer than five seeds, each one
    assert texts[0, 1] == "-1.53 •\n-2.0 -1.0 -1.6"
    assert texts[1, 0] == "+0.07\n+0.1 -0.2 +0.3"
    assert (1, 1) not in texts  # was not run
    assert [text.get_text() for text in right.texts] == ["70.00", "71.00", "72.00"]
    assert "Holm" in " ".join(written(figure))
    assert "each seed" in " ".join(written(figure))


def test_five_seeds_have_an_interval_and_one_seed_has_none():
    for values, expected in (((1.0, 1.0, 1.0, 1.0, 2.0), "+1.20 •\n[+0.64, +1.76]"), ((1.0,), "+1.00")):
        [text] = weight_grid.draw(cells({(1.0, 0.5): values})).axes[0].texts
        assert text.get_text() == expected


def test_differences_are_paired_with_the_baseline_of_the_same_seed_on_validation(tmp_path):
    accuracies = {"ce": (60.0, 50.0, 40.0), "opl": (61.0, 52.0, 43.0, 99.0)}  # the last seed has no baseline
    rows = (Row("CE", "ce", {}), Row("OPL", "opl", {"val/top1": 72.2}, "ce"))
    by_row = rows_with(tmp_path, rows, {"val/top1": accuracies}, opl=opl(1.0, 0.5))
    [cell] = weight_grid.cells_of(by_row)
    difference = cell.contrast.difference
    assert (cell.weight, cell.gamma, cell.paper) == (1.0, 0.5, 72.2)
    assert (difference.mean, difference.size) == (2.0, 3)
    assert math.isclose(difference.half, 4.3027 / math.sqrt(3), rel_tol=1e-4)
    assert "weight 1, gamma 0.5: +2.00" in weight_grid.render(by_row, "class").text[0]
