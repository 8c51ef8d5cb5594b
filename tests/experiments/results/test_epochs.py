"""The records of epochs by column are the records as they were written, and curves are thinned and not bent."""

import doctest
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from opl.experiments.charts.training import curve
from opl.experiments.results import epochs as module
from opl.experiments.results.epochs import EpochRecords
from opl.experiments.results.records import run_of
from opl.experiments.results.runs import Run

VALUES = st.floats() | st.integers(-(10**400), 10**400) | st.booleans() | st.none() | st.just("text")
RECORDS = st.lists(st.dictionaries(st.sampled_from(["s", "d", "val/top1"]), VALUES), max_size=12)


def with_epochs(records: list[dict]) -> list[dict]:
    return [{"epoch": epoch, **record} for epoch, record in enumerate(records)]


def run(records: list[dict], seed: int) -> Run:
    record = {"recipe": {"name": "digits-ce", "seed": seed, "scale": "small"}, "result": {}}
    return replace(run_of(record, Path("seed-0.json"), "here"), records=EpochRecords(with_epochs(records)))


@given(RECORDS)
def test_every_number_of_every_record_is_where_it_was(records):
    found = EpochRecords(with_epochs(records))
    assert len(found) == len(records)
    for epoch, (one, other) in enumerate(zip(found, records, strict=True)):
        numbers = {name: float(value) for name, value in other.items() if holds(value)}
        assert one == {"epoch": float(epoch), **numbers}
    for name in ("s", "d"):
        column = found.column(name)
        plain = [float(record[name]) if holds(record.get(name)) else math.nan for record in records]
        np.testing.assert_array_equal(column, np.array(plain))
        assert found.total(name) == math.fsum(value for value in plain if math.isfinite(value))
    assert found[-3:] == list(found)[-3:]


def holds(value: object) -> bool:
    """Whether a value is a number of a float's range."""
    if isinstance(value, float):
        return not math.isnan(value)
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**1023


SERIES = st.lists(st.none() | st.floats(-9, 9), min_size=1, max_size=40)


@given(st.lists(SERIES, min_size=1, max_size=3), st.integers(0, 12))
def test_a_curve_has_the_values_of_its_epochs_and_no_more_of_them_than_it_may(series, most):
    runs = [run([{} if value is None else {"s": value} for value in each], seed) for seed, each in enumerate(series)]
    found = curve("CE", runs, "s", most)
    there = sorted({epoch for each in series for epoch, value in enumerate(each) if value is not None})
    if not most:
        assert [epoch - 1 for epoch in found.epochs] == (there or [0])
    else:
        assert len(found.epochs) <= most + 1
        assert set(found.epochs) <= {epoch + 1 for epoch in there} or not there
    if there:
        assert found.epochs[-1] == there[-1] + 1
        assert found.epochs[0] == there[0] + 1
    for row, each in zip(found.values, series, strict=True):
        for epoch, value in zip(found.epochs, row, strict=True):
            expected = each[epoch - 1] if epoch <= len(each) else None
            assert (math.isnan(value) and expected is None) or value == expected


def test_the_docstrings_examples_are_true():
    assert doctest.testmod(module) == (0, 2)
