"""Seed by seed: only shared seeds with finite values, and which direction is better."""

import math
from dataclasses import replace

from _runs import write_run
from opl.experiments.charts.seed_pairs import SeedPairs, data_table, seed_pairs, to_svg
from opl.experiments.results.runs import read_runs

VALUES = {"ce": {0: 70.0, 1: 71.0, 2: 72.0}, "opl": {0: 71.0, 2: 70.5, 3: 90.0}}


def rows(folder, metric):
    for name, seeds in VALUES.items():
        for seed in seeds:
            write_run(folder, name, seed)
    runs = [replace(run, result={**run.result, metric: VALUES[run.name][run.seed]}) for run in read_runs(folder)]
    return [[run for run in runs if run.name == name] for name in VALUES]


def test_only_seeds_that_both_rows_have_are_paired(tmp_path):
    before, after = rows(tmp_path, "test/top1")
    pairs = seed_pairs("test/top1", "top-1 %", ("CE", "CE+OPL"), before, after)
    assert pairs.values == ((0, 70.0, 71.0), (2, 72.0, 70.5))
    assert [pairs.direction(low, high) for _, low, high in pairs.values] == ["better", "worse"]
    after[0].result["test/top1"] = math.nan
    assert [seed for seed, *_ in seed_pairs("test/top1", "", ("a", "b"), before, after).values] == [2]
    assert seed_pairs("test/top1", "", ("a", "b"), before[1:2], after) is None


def test_less_is_better_in_d(tmp_path):
    pairs = seed_pairs("test/d", "d", ("CE", "CE+OPL"), *rows(tmp_path, "test/d"))
    assert [pairs.direction(before, after) for _, before, after in pairs.values] == ["worse", "better"]
    assert pairs.direction(1, 1) == "level"


def test_the_chart_and_its_table_have_every_value():
    pairs = SeedPairs("top-1 %", ("net CE", "net CE+OPL"), ((0, 70.0, 71.0), (4, 72.0, 70.5)))
    assert "top-1 %, net CE and net CE+OPL: seed 0 70 to 71; seed 4 72 to 70.5." in to_svg(pairs)
    assert data_table([pairs]).rows == [
        ("net CE+OPL vs net CE", 0, "70", "71", "+1"),
        ("net CE+OPL vs net CE", 4, "72", "70.5", "-1.5"),
    ]
