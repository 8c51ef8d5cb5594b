"""Seed by seed: only shared seeds with finite values, and which direction is better."""

import math

from _chart_values import rows_with

from opl.experiments.charts.seed_pairs import SeedPairs, data_table, seed_pairs, to_svg
from opl.experiments.item import Row

ROWS = (Row("CE", "ce", {}), Row("CE+OPL", "opl", {}, "ce"))
VALUES = {"ce": (70.0, 71.0, 72.0), "opl": (71.0, math.nan, 70.5, 90.0)}


def test_only_seeds_of_which_both_rows_have_a_finite_value_are_paired_and_less_is_better_in_d(tmp_path):
    (_, before), (_, after) = rows_with(tmp_path, ROWS, {"test/top1": VALUES, "test/d": VALUES})
    pairs, of_d = (seed_pairs(name, "", ("CE", "CE+OPL"), before, after) for name in ("test/top1", "test/d"))
    assert pairs.values == of_d.values == ((0, 70.0, 71.0), (2, 72.0, 70.5))
    assert [pairs.direction(low, high) for _, low, high in pairs.values] == ["better", "worse"]
    assert [of_d.direction(low, high) for _, low, high in of_d.values] == ["worse", "better"]
    assert pairs.direction(1, 1) == "level"
    assert seed_pairs("test/top1", "", ("a", "b"), before[1:2], after) is None


def test_the_chart_and_its_table_have_every_value():
    pairs = SeedPairs("top-1 %", ("net CE", "net CE+OPL"), ((0, 70.0, 71.0), (4, 72.0, 70.5)))
    assert "top-1 %, net CE and net CE+OPL: seed 0 70 to 71; seed 4 72 to 70.5." in to_svg(pairs)
    assert data_table([pairs]).rows == [
        ("net CE+OPL vs net CE", 0, "70", "71", "+1"),
        ("net CE+OPL vs net CE", 4, "72", "70.5", "-1.5"),
    ]
