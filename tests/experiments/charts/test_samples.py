"""The test images that two runs share: labels, predictions and pictures belong to the same image."""

from dataclasses import replace

import numpy as np
import pytest

from _runs import write_table
from opl.errors import FolderError
from opl.experiments.charts.samples import POINTS, shared_samples
from opl.experiments.results.runs import read_runs


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    runs = read_runs(write_table(tmp_path_factory.mktemp("runs"), seeds=1))
    return [run for run in runs if run.name in ("cifar100-ce", "cifar100-opl")]


def test_labels_predictions_features_and_pictures_are_of_the_same_image(pair):
    samples = shared_samples(*pair)
    assert len(samples.rows) <= POINTS
    assert np.bincount(samples.labels).min() > 0
    arrays = [run.arrays() for run in pair]
    for index, row in enumerate(samples.rows.tolist()):
        assert samples.labels[index] == arrays[0]["labels"][row]
        for side in (0, 1):
            assert samples.predictions[side][index] == arrays[side]["top5"][row, 0]
            np.testing.assert_array_equal(samples.features[side][index], arrays[side]["features"][row].astype(float))
        if samples.pictures[index] >= 0:
            np.testing.assert_array_equal(samples.pixels[samples.pictures[index]], arrays[0]["pixels"][row])
    assert (samples.pictures >= 0).sum() == len(samples.pixels) == 120


def test_runs_that_share_no_images_are_an_error(pair):
    def with_arrays(run, **changes):
        changed = replace(run)
        changed._cache["arrays", "test"] = {**run.arrays(), **changes}
        return changed

    labels = pair[1].arrays()["labels"]
    with pytest.raises(FolderError, match="tested on different images"):
        shared_samples(pair[0], with_arrays(pair[1], labels=labels[::-1]))
    with pytest.raises(FolderError, match="no features of the same test images"):
        shared_samples(pair[0], with_arrays(pair[1], features=np.full((400, 2), np.nan)))
