"""Features before and after, and the matrices of classes, against NumPy and scikit-learn."""

import base64
import io
import re

import numpy as np
import pytest
from _written_page import page_of

from _page import Reader
from _runs import ITEM, PLANE, opl, write_run, write_table
from opl.experiments.report.confusion import confusion_matrix
from opl.experiments.report.features import project
from opl.experiments.report.images import DIVERGING, heat_map
from opl.experiments.report.samples import shared_samples
from opl.experiments.results.runs import read_runs

ONE = {"table-1": ITEM}


def test_points_are_those_of_scikit_learns_pca():
    decomposition = pytest.importorskip("sklearn.decomposition", reason="scikit-learn is not installed")
    features = np.random.default_rng(0).normal(size=(50, 8)) * np.arange(1, 9)
    pca = decomposition.PCA(2)
    expected = pca.fit_transform(features)
    found = project(features)
    np.testing.assert_allclose(np.abs(found.points), np.abs(expected), atol=1e-8)
    assert found.words == f"{100 * pca.explained_variance_ratio_.sum():.0f} % of the spread"


def test_two_dimensions_are_the_plane_itself_and_not_rounded_into_a_grid(tmp_path):
    for name, kind in (("ce", None), ("opl", opl(1.0))):
        digits = tuple(map(str, range(10)))
        write_run(tmp_path, f"mnist-2d-{name}", method=kind, class_names=digits, outputs=True, feature_dim=2)
    page = page_of(tmp_path, {"figure-2": PLANE})
    [values] = [each for each in Reader(page).values if "guesses" in each]
    with np.load(tmp_path / "mnist-2d-ce/seed-0/test.npz") as arrays:
        expected = arrays["features"].astype(float)[values["rows"]]
    places = np.array([values["x"][0], values["y"][0]]).T
    slope = np.polyfit(expected[:, 0], places[:, 0], 1)
    np.testing.assert_allclose(np.polyval(slope, expected[:, 0]), places[:, 0], atol=0.02)
    assert len(np.unique(places[:, 0])) > 0.9 * len(places)
    assert "mean angle between classes" in Reader(page).words


def test_both_sides_show_the_same_images_with_their_pictures(tmp_path):
    write_table(tmp_path, seeds=1)
    before, after = (run for run in read_runs(tmp_path) if run.name in ("cifar100-ce", "cifar100-opl"))
    found = shared_samples(before, after)
    assert len(found.rows) <= 600
    assert np.bincount(found.labels).min() > 0
    pixels, labels = (before.arrays()[name] for name in ("pixels", "labels"))
    for place, row in enumerate(found.rows.tolist()):
        assert found.labels[place] == labels[row]
        if found.pictures[place] >= 0:
            np.testing.assert_array_equal(found.pixels[found.pictures[place]], pixels[row])
    assert (found.pictures >= 0).sum() == len(found.pixels) == 120


def test_a_heat_map_has_the_sign_of_its_values():
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    data = heat_map(np.array([[0.0, -1.0], [1.0, np.nan]]), -1, 1, DIVERGING)
    shown = image.open(io.BytesIO(base64.b64decode(data.split(",")[1])), formats=("PNG",)).convert("RGBA")
    middle, low, high, missing = (np.array(shown.getpixel(at), int) for at in ((0, 0), (1, 0), (0, 1), (1, 1)))
    assert middle[:3].min() > 235
    assert low[2] > low[0]  # blue below zero
    assert high[0] > high[2]  # orange above
    assert missing[3] == 0


def test_matrices_have_their_difference_and_its_sign_beside_them(tmp_path):
    page = page_of(write_table(tmp_path, seeds=2), ONE)
    captions = re.findall(r"<figcaption>(CE|CE\+OPL|change of \|cos\|)<span", page)
    assert captions[-9:-6] == ["CE", "CE+OPL", "change of |cos|"] or "change of |cos|" in captions
    [cells] = [each["cells"] for each in Reader(page).values if "cells" in each][:1]
    change = np.mean(
        [abs(a) - abs(b) for one, two in zip(*cells, strict=True) for b, a in zip(one[:-1], two[:-1], strict=True)]
    )
    said = re.search(r"change of \|cos\|<span class=\"quiet\"> mean ([+-][\d.]+)", page).group(1)
    assert float(said) == pytest.approx(change / 1000, abs=2e-3)
    assert said.startswith("-")  # OPL sets the classes of these runs apart


def test_fixed_and_broken_images_are_counted_one_by_one(tmp_path):
    page = page_of(write_table(tmp_path, seeds=2), ONE)
    before, after = (
        run for run in read_runs(tmp_path) if run.name in ("cifar100-ce", "cifar100-opl") and run.seed == 0
    )
    fixed = broken = 0
    labels = before.arrays()["labels"]
    for truth, old, new in zip(labels, before.arrays()["top5"][:, 0], after.arrays()["top5"][:, 0], strict=True):
        fixed += old != truth == new
        broken += old == truth != new
    assert f"{fixed} fixed, {broken} broken of 400 test images by CE+OPL against CE (seed 0; exact sign test, p" in page
    assert "Fixed: right with CE+OPL, wrong with CE" in page
    assert "Broken: right with CE, wrong with CE+OPL" in page


def test_the_confusions_are_those_of_scikit_learn(tmp_path):
    metrics = pytest.importorskip("sklearn.metrics", reason="scikit-learn is not installed")
    write_run(tmp_path, "cifar100-ce", outputs=True)
    [run] = read_runs(tmp_path)
    expected = metrics.confusion_matrix(run.arrays()["labels"], run.arrays()["top5"][:, 0], labels=range(20))
    np.testing.assert_array_equal(confusion_matrix([run], 20), expected)
