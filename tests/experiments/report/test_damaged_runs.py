"""Unfinished, failed and damaged runs leave a page that says so."""

import json
import math

import numpy as np
import pytest
from _written_page import page_of

from _page import Reader
from _runs import write_run, write_table
from opl.experiments.results.runs import read_runs


def test_unfinished_failed_and_damaged_runs_are_shown_as_such(tmp_path):
    write_table(tmp_path, seeds=2)
    write_run(tmp_path, "cifar100-ce", 5, done=False)
    write_run(tmp_path, "cifar100-opl", 6, done=False, error="the loss is not finite: lower the learning rate.")
    broken = write_run(tmp_path, "cifar100-ole", 7)
    (broken / "result.json").write_text("{")
    states = {run.where: run.state for run in read_runs(tmp_path)}
    assert states["cifar100-ce/seed-5"] == "unfinished"
    assert states["cifar100-opl/seed-6"] == "failed"
    assert states["cifar100-ole/seed-7"] == "damaged"
    words = Reader(page_of(tmp_path)).words
    assert "cifar100-ce/seed-5 unfinished 5 of 10 epochs are done." in words
    assert "cifar100-opl/seed-6 failed the loss is not finite: lower the learning rate." in words
    assert "cifar100-ole/seed-7 damaged result.json is not what the run wrote" in words


@pytest.mark.parametrize("cut", [1, 40, -1, -200])
def test_a_truncated_record_or_nan_is_a_gap(tmp_path, cut):
    write_table(tmp_path, seeds=1)
    path = tmp_path / "cifar100-ce" / "seed-0" / "metrics.jsonl"
    path.write_text(path.read_text()[:cut] + '\n{"epoch": 3, "s": NaN}\n5\n')
    result = tmp_path / "cifar100-opl" / "seed-0" / "result.json"
    result.write_text(json.dumps({**json.loads(result.read_text()), "test/top1": math.nan}))
    read = Reader(page_of(tmp_path))
    assert "table-1-small-curves" in read.ids
    assert "nan" in read.words  # a NaN is said, not hidden


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("recipe.json", b"{"),
        ("recipe.json", b"[]"),
        ("recipe.json", b'{"recipe": 5}'),
        ("recipe.json", b"\xff\xfe"),
        ("result.json", b"[]"),
        ("result.json", b"{}"),
        ("result.json", b'{"test/top1": "<b>", "seconds": null}'),
        ("metrics.jsonl", b"\xff\xfe\n"),
        ("metrics.jsonl", b'{"epoch": "a", "val/top1": {}}\n'),
        ("splits.json", b"{"),
        ("splits.json", b'{"class_names": 3, "groups": 3}'),
        ("test.npz", b"PK no archive"),
    ],
)
def test_a_damaged_file_leaves_a_page(tmp_path, name, content):
    write_table(tmp_path, seeds=2)
    (tmp_path / "cifar100-opl" / "seed-0" / name).write_bytes(content)
    read = Reader(page_of(tmp_path))
    assert {"table-1-small-table", "runs", "again"} <= set(read.ids)
    assert "cifar100-opl/seed-0" in read.words


@pytest.mark.parametrize(
    "arrays",
    [
        {"similarity": np.ones((3, 4)), "labels": np.zeros(4, int)},
        {"features": np.full((400, 2), np.nan), "labels": np.zeros(400, int)},
        {"pixels": np.zeros((4, 8), np.uint8)},
        {"labels": np.full(400, 99), "features": np.ones((400, 2))},
        {"top5": np.zeros((2, 5), int)},
    ],
)
def test_outputs_of_the_wrong_shape_leave_a_page(tmp_path, arrays):
    write_table(tmp_path, seeds=1)
    path = tmp_path / "cifar100-opl" / "seed-0" / "test.npz"
    with np.load(path) as kept:
        np.savez(path, **{**dict(kept), **arrays})
    assert "table-1-small-settings" in Reader(page_of(tmp_path)).ids
