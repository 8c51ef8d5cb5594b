"""Test images that one model fixes or breaks, with the predictions of both, and the change of the confusions."""

from types import SimpleNamespace

import numpy as np
import pytest
from _chart_values import DRAWN, predictions, rng, written

from _runs import write_run
from opl.errors import FolderError
from opl.experiments.charts import gallery, style
from opl.experiments.item import Row
from opl.experiments.results.runs import read_runs


def run_with(labels, top5, p5, pixels, **about):
    arrays = {"labels": labels, "top5": top5, "p5": p5, "pixels": pixels, "pixel_rows": np.arange(len(pixels))}
    names = "abcdefg"
    return SimpleNamespace(
        where="runs", arrays=lambda name="test": arrays, class_names=lambda count: tuple(names[:count]), **about
    )


def test_fixed_pictures_equal_a_loop():
    labels, old, old_p, new, new_p = predictions()
    pixels = rng().integers(0, 256, (30, 8, 8, 3), dtype=np.uint8)
    names, fixed = "abcdefg", []
    for i in range(30):  # ten of the forty samples have no pixels
        if new[i, 0] == labels[i] and old[i, 0] != labels[i]:
            fixed.append((-new_p[i, 0], i))
    expected = [i for _, i in sorted(fixed)]
    before, after = run_with(labels, old, old_p, pixels), run_with(labels, new, new_p, pixels)
    got = gallery.find_fixed(before, after, limit=100)
    assert len(got) == len(expected) > 5
    for picture, i in zip(got, expected, strict=True):
        np.testing.assert_array_equal(picture.pixels, pixels[i])
        assert picture.truth == names[labels[i]] == picture.after[0][0] != picture.before[0][0]
        assert picture.before == tuple((names[c], p) for c, p in zip(old[i], old_p[i], strict=True))
        assert picture.after == tuple((names[c], p) for c, p in zip(new[i], new_p[i], strict=True))
    assert [picture.truth for picture in gallery.find_fixed(before, after, limit=3)] == [
        picture.truth for picture in got[:3]
    ]
    assert gallery.find_fixed(run_with(labels, old, old_p, pixels[:0]), after) == []
    with pytest.raises(FolderError, match="tested on different images"):
        gallery.find_fixed(before, run_with(labels[:20], new[:20], new_p[:20], pixels[:20]))


def test_each_picture_is_beside_the_predictions_of_both_models():
    figure = DRAWN["gallery"]()
    assert len(figure.axes) == 3 * 3
    words = written(figure)
    for word in ("CE", "CE+OPL", "owl", "bee", "90 %", "60 %"):
        assert word in words
    true = [axes.patches[1] for axes in figure.axes[1::3]]  # the second prediction of the first model
    from matplotlib.colors import to_rgb

    assert {bar.get_facecolor()[:3] for bar in true} == {to_rgb(style.ACCENT)}


def run_of(name, seed, predicted, labels=(0, 1, 2, 0)):
    """A run of four test pictures of which three are kept, with one prediction each."""
    p5, pixels = np.array([[0.9], [0.8], [0.7], [0.6]]), np.zeros((3, 8, 8, 1), dtype=np.uint8)
    return run_with(np.array(labels), np.array(predicted)[:, None], p5, pixels, name=name, seed=seed)


def test_broken_images_are_those_fixed_in_the_other_direction_and_all_images_are_counted():
    before, after = run_of("ce", 0, [0, 2, 1, 1]), run_of("opl", 0, [1, 1, 2, 0])
    assert gallery.count_changes(before, after) == (3, 1, 4)
    assert gallery.count_changes(after, before) == (1, 3, 4)
    assert [one.truth for one in gallery.find_fixed(before, after)] == ["b", "c"]  # the fourth has no pixels
    [broken] = gallery.find_broken(before, after)
    assert (broken.truth, broken.before, broken.after) == ("a", (("a", 0.9),), (("b", 0.9),))


def test_every_row_with_a_baseline_has_its_own_pictures_in_both_directions():
    rows = [
        (Row(f"Digits {name}", name, {}, baseline), [run_of(name, seed, found) for seed in (1, 2)])
        for name, baseline, found in (
            ("ce", "", [0, 2, 1, 1]), ("opl", "ce", [1, 1, 2, 0]), ("other-ce", "", [0, 1, 2, 1]),
            ("other-opl", "other-ce", [0, 1, 2, 0]), ("worse", "other-ce", [0, 1, 1, 1]),
            ("alone", "elsewhere", [0] * 4),
        )
    ]  # fmt: skip
    found = gallery.render(rows, "class")
    assert {suffix: len(figure.axes) // 3 for suffix, figure in found.figures.items()} == {"": 3, "-worse": 1}
    assert {suffix: [run.name for run in runs] for suffix, runs in found.runs.items()} == {
        "": ["ce", "opl"],
        "-worse": ["other-ce", "worse"],
    }
    assert found.text[:2] == [
        "Digits: opl vs ce: fixes 3 of 4 test images (most confident first), seed 1; 2 shown",
        "Digits: opl vs ce: breaks 1 of 4 test images (most confident first), seed 1; 1 shown",
    ]
    assert "none with a picture" in " ".join(written(found.figures["-worse"]))
    rows[1][1][:] = [run_of("opl", 3, [0] * 4)]
    with pytest.raises(FolderError, match="ce and opl have no finished run with the same seed"):
        gallery.render(rows, "class")


def test_the_confusion_matrix_equals_scikit_learn(tmp_path):
    metrics = pytest.importorskip("sklearn.metrics", reason="scikit-learn is not installed")
    write_run(tmp_path, "cifar100-ce", outputs=True)
    [run] = read_runs(tmp_path)
    expected = metrics.confusion_matrix(run.arrays()["labels"], run.arrays()["top5"][:, 0], labels=range(20))
    np.testing.assert_array_equal(gallery.confusion_matrix([run], 20), expected)


def test_the_confusions_that_changed_most_are_counted_over_all_pairs():
    before, after = run_of("ce", 0, [0, 2, 1, 1]), run_of("opl", 0, [1, 1, 2, 1])
    assert gallery.is_comparable(before, after)
    assert not gallery.is_comparable(before, run_of("opl", 0, [0] * 4, labels=(0, 0, 0, 0)))
    found = gallery.find_changed_confusions([(before, after), (before, after)])
    assert [tuple(confusion) for confusion in found] == [("a", "b", 2, 4), ("b", "c", 2, 0), ("c", "b", 2, 0)]
    assert gallery.find_changed_confusions([(before, before)]) == []
