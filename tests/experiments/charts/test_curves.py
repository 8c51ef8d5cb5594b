"""Curves over epochs: means, bands and gaps in figures, and the panels of the page."""

import json
import math

import numpy as np
import pytest
from _chart_values import DRAWN, curve, legend, rng

from _runs import ITEM, write_run, write_table
from _vouched import metric_lines, vouch
from opl.experiments.charts import curves, style
from opl.experiments.results.runs import read_runs
from opl.experiments.statistics import Range


def test_the_band_is_the_interval_of_scipy_over_the_seeds_with_values():
    stats = pytest.importorskip("scipy.stats", reason="scipy is not installed")
    values = rng().normal(size=(4, 3))
    values[3, 1] = np.nan
    values[1:, 2] = np.nan
    mean, low, high = curves.band(curves.Curve("CE", (1, 2, 3), (0, 1, 2, 3), values))
    for epoch, seeds in ((0, values[:, 0]), (1, values[:3, 1])):
        expected = stats.t.interval(0.95, len(seeds) - 1, loc=seeds.mean(), scale=stats.sem(seeds))
        assert (low[epoch], high[epoch]) == pytest.approx(expected)
        assert mean[epoch] == pytest.approx(seeds.mean())
    assert mean[2] == low[2] == high[2] == values[0, 2]


def test_an_epoch_that_no_seed_has_is_left_out():
    gap = curves.Curve("CE", (1, 2, 3), (0,), np.array([[1.0, np.nan, 3.0]]))
    assert math.isnan(curves.band(gap)[0][1])
    [line] = curves.draw({"s": [gap]}).axes[0].get_lines()
    assert line.get_xdata().tolist() == [1, 3]


def test_there_is_a_panel_for_each_measure_and_one_legend():
    figure = DRAWN["curves"]()
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["s", "d"]
    assert [(len(axes.get_lines()), len(axes.collections)) for axes in figure.axes] == [(8, 0), (8, 0)]
    assert legend(figure) == ["CE", "CE+OPL"]
    shown = [line.get_color() for line in figure.axes[1].get_lines()]
    assert shown == [style.PALETTE[0]] * 4 + [style.ACCENT] * 4  # a mean and three seeds each, and no band


def test_the_band_of_five_seeds_or_more_is_clipped_to_the_valid_range():
    values = np.array([[0.9], [1.0], [1.0], [1.0], [1.0]])
    few, many = (curves.Curve("CE", (1,), tuple(range(n)), values[:n], Range(0, 1)) for n in (4, 5))
    assert [len(curves.draw({"d": [each]}).axes[0].collections) for each in (few, many)] == [0, 1]
    mean, low, high = curves.band(many)
    assert (float(mean[0]), float(high[0])) == (pytest.approx(0.98), 1.0)
    assert low[0] < 0.98


def add_to_records(run, **columns):
    """Add numbers to the epochs of a run that have been validated."""
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    for record in records:
        del record["check"]
        record |= {name: value(record["epoch"]) for name, value in columns.items()}
    (run / "metrics.jsonl").write_text(metric_lines(records))
    vouch(run)


def rows_of(folder):
    runs = read_runs(folder)
    return [(row, [run for run in runs if run.name == row.recipe]) for row in ITEM.rows]


def test_few_seeds_are_lines_and_five_have_a_band():
    for seeds, lines, band in ((1, 0, False), (4, 4, False), (5, 0, True)):
        made = curve(seeds=seeds)
        assert (len(made.seed_lines), made.has_band) == (lines, band)
    np.testing.assert_array_equal(curve(seeds=3).seed_lines, curve(seeds=3).values)


def test_the_page_has_accuracy_cross_entropy_s_and_d_and_folds_the_rest(tmp_path):
    write_table(tmp_path, seeds=2)
    for run in tmp_path.glob("*/seed-*"):
        add_to_records(run, **{"train/entropy": lambda epoch: 2.0 - 0.1 * epoch})
    main, further = curves.panels(rows_of(tmp_path))
    assert [panel.name for panel in main] == ["val/top1", "s", "d", "train/entropy"]  # no validation cross-entropy
    for run in tmp_path.glob("*/seed-*"):
        add_to_records(run, **{"val/loss": lambda epoch: 2.0 - 0.1 * epoch})
    main, further = curves.panels(rows_of(tmp_path))
    assert [panel.name for panel in main] == ["val/top1", "val/loss", "s", "d"]
    assert "train/loss" in [panel.name for panel in further]  # not comparable between methods
    assert curves.panels([(row, []) for row in ITEM.rows]) == ([], [])


def test_the_table_behind_a_chart_has_the_mean_and_every_seed(tmp_path):
    write_table(tmp_path, seeds=3)
    table = curves.data_table(curves.panels(rows_of(tmp_path))[0][0], "key")
    assert table.head == ("epoch", "CE", "CE+OPL", "Center", "OLE")
    assert [row[0] for row in table.rows] == [2, 4, 6, 8, 10]  # validated every other epoch
    values = [run.records[9]["val/top1"] for run in read_runs(tmp_path) if run.name == "cifar100-ce"]
    assert table.rows[-1][1] == f"{sum(values) / 3:.4g} ({', '.join(f'{value:.4g}' for value in values)})"


def test_many_curves_have_a_row_each_and_some_of_the_epochs():
    panel = curves.Panel("s", "s", [curve(f"row {index}", epochs=40) for index in range(9)])
    table = curves.data_table(panel, "key")
    assert len(table.rows) == 9
    assert table.head[0] == "at epoch"
    assert table.head[-1] == "40"  # the last epoch is among them
    assert len(table.head) - 1 <= curves.SOME


def test_a_metric_of_some_runs_is_a_gap_in_the_others(tmp_path):
    write_table(tmp_path, seeds=1)
    add_to_records(tmp_path / "cifar100-opl/seed-0", **{"kept/clean": lambda epoch: 0.6 + 0.04 * epoch})
    [panel] = [panel for panel in curves.panels(rows_of(tmp_path))[1] if panel.name == "kept/clean"]
    rows = curves.data_table(panel, "key").rows
    assert [float(row[2]) for row in rows] == pytest.approx([0.6 + 0.04 * epoch for epoch in range(10)])
    assert {row[1] for row in rows} == {"-"}


def test_an_unfinished_run_is_a_shorter_curve(tmp_path):
    write_run(tmp_path, "cifar100-ce")
    write_run(tmp_path, "cifar100-opl", done=False)
    [panel] = [panel for panel in curves.panels(rows_of(tmp_path)[:2])[0] if panel.name == "d"]
    rows = curves.data_table(panel, "key").rows
    assert [row[1] == "-" for row in rows] == [False] * 5
    assert [row[2] == "-" for row in rows] == [False, False, True, True, True]


def test_the_label_of_the_chart_has_the_last_mean_of_each_curve():
    made = curves.Curve("CE <b>", (1, 2), (0, 1), np.array([[1.0, 2.0], [3.0, np.nan]]))
    chart = curves.to_svg(curves.Panel("s", "s", [made]), "key")
    assert "s, over the epochs; at the end CE &lt;b&gt; 2. Arrow keys" in chart
