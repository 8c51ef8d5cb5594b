"""The nearest and farthest classes, in words."""

import numpy as np
import pytest

from opl.experiments.charts import similarity

pytest.importorskip("matplotlib", reason="matplotlib is not installed")


def test_neighbors_are_read_off_by_hand():
    names = ("dolphin", "whale", "shark", "oak", "pear")
    values = np.eye(5)
    values[0] = [1.0, 0.71, -0.66, 0.2, -0.001]
    values[1] = [0.71, 1.0, np.nan, 0.3, 0.1]
    got = similarity.describe_neighbors(similarity.Matrix("CE", values, names), n=2)
    assert len(got) == 5
    assert got[0] == "dolphin: nearest whale 0.71, shark -0.66; farthest pear 0.00, oak 0.20"
    assert got[1] == "whale: nearest dolphin 0.71, oak 0.30; farthest pear 0.10"
    assert similarity.describe_neighbors(similarity.Matrix("CE", np.ones((1, 1)), ("a",))) == [
        "a: no other class to compare it with"
    ]
