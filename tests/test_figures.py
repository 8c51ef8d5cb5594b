"""The paper's figures: their numbers against loops, SciPy and scikit-learn; their pictures by what is in them."""

import base64
import doctest
import io
import json
import math
import subprocess
import sys
from importlib import import_module
from itertools import combinations, permutations

import numpy as np
import pytest

from opl.errors import FolderError, OptionError
from opl.experiments.figures import _points, _ring, gallery, lda, plane, search, similarity, style, training

pytest.importorskip("matplotlib", reason="matplotlib is not installed")

MODULES = (
    "style", "_points", "_rendering", "_ring", "_sweeps",
    "plane", "training", "similarity", "neighbors", "gallery", "search", "lda", "paper",
)  # fmt: skip
HOSTILE = (
    "<b>x</b>",
    "x" * 90,
    "x" * 91,
    "日本語 🐬",
    "$\\frac{$",
    "_hidden",
    "a\x00b\nc",
    "<img src=x onerror=alert(1)>",
    '%{x} & "it\'s"',
    "",
)


def rng():
    return np.random.default_rng(0)


def at(*degrees, label="CE", names=None):
    """A cloud with one feature of length 3 at each angle, a class each."""
    angles = np.radians(degrees)
    features = 3 * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    return plane.Cloud(
        label, features, np.arange(len(degrees)), names or tuple(f"class {i}" for i in range(len(degrees)))
    )


def cloud(label="CE", samples=90, names=("cat", "dog", "owl")):
    labels = np.arange(samples) % len(names)
    return plane.Cloud(label, rng().normal(size=(samples, 2)) + 3 * labels[:, None], labels, names)


def curve(label="CE", seeds=3, epochs=5):
    return training.Curve(label, tuple(range(1, epochs + 1)), tuple(range(seeds)), rng().normal(size=(seeds, epochs)))


def matrix(label="CE", count=6, names=None):
    values = rng().uniform(-1, 1, (count, count))
    values = (values + values.T) / 2
    np.fill_diagonal(values, 1)
    return similarity.Matrix(label, values, names or tuple(f"class {i}" for i in range(count)))


def picture(truth="cat", size=8, channels=3):
    pixels = rng().integers(0, 256, (size, size, channels), dtype=np.uint8)
    return gallery.Picture(pixels, truth, (("dog", 0.6), (truth, 0.4)), ((truth, 0.9), ("dog", 0.1)))


def sweep(label="CE+OPL", baseline=(70.0, 71.0)):
    return search.Sweep(label, "lambda", (0.1, 1.0, 2.0), ((71.0, 72.0), (73.0, 73.5), (70.0,)), baseline)


def panel(label="CE", names=("cat", "dog", "owl")):
    labels = np.arange(60) % len(names)
    features = rng().normal(size=(60, 8)) + labels[:, None]
    return lda.Panel(label, lda.project(features, labels), labels, names, lda.separation(features, labels))


DRAWN = {
    "plane": lambda: plane.draw([cloud("CE"), cloud("CE+OPL")]),
    "training": lambda: training.draw({"s": [curve("CE"), curve("CE+OPL")], "d": [curve("CE"), curve("CE+OPL")]}),
    "similarity": lambda: similarity.draw([matrix("CE"), matrix("CE+OPL")]),
    "gallery": lambda: gallery.draw([picture("cat"), picture("owl"), picture("bee", channels=1)]),
    "search": lambda: search.draw({"lambda": [sweep()], "batch size": [sweep("CE", None), sweep("CE+OPL", None)]}),
    "lda": lambda: lda.draw(
        [[panel("CE"), panel("CE+OPL")], [panel("CE", ("bee", "fox")), panel("OPL", ("bee", "fox"))]]
    ),
}
PAGES = {
    "plane": lambda names: plane.page([cloud(names[0], names=names), cloud(names[1], names=names)]),
    "training": lambda names: training.page([curve(names[0]), curve(names[1])], names[0]),
    "similarity": lambda names: similarity.page(matrix(names[0], len(names), names)),
    "search": lambda names: search.page([sweep(names[0]), sweep(names[1], None)], names[0], names[1]),
    "heat": lambda names: search.heat([0.1, 1.0], [0.5], np.array([[71.0], [np.nan]]), names[:2]),
    "lda": lambda names: lda.page([panel(names[0], names), panel(names[1], names)]),
}


def written(figure) -> list[str]:
    """Every word of a figure."""
    from matplotlib.text import Text

    return [word.get_text() for word in figure.findobj(Text) if word.get_text()]


def legend(figure) -> list[str]:
    from matplotlib.legend import Legend

    return [word.get_text() for one in figure.findobj(Legend) for word in one.get_texts()]


# Figure 2


@pytest.mark.parametrize(
    ("degrees", "expected"),
    [((0, 90), 90), ((0, 60, 90), 60), ((10, 190), 180), ((350, 10), 20), ((45, 45), 0), ((0, 120, 240), 120)],
)
def test_the_mean_angle_is_that_of_the_pairs(degrees, expected):
    assert plane.mean_angle(at(*degrees)) == pytest.approx(expected, abs=1e-5)


def test_a_direction_is_the_mean_of_unit_features_and_long_ones_count_no_more():
    features = np.array([[1000.0, 0.0], [0.001, 0.001], [0.0, 0.0], [np.nan, 1.0], [1e200, 1e200]])
    got = plane.directions(plane.Cloud("CE", features, np.array([0, 0, 1, 1, 3]), ("a", "b", "c", "d")))
    between, half = math.radians(22.5), math.sqrt(0.5)
    np.testing.assert_allclose(got, [[math.cos(between), math.sin(between)], [0, 0], [0, 0], [half, half]])


def test_classes_without_a_direction_make_no_angle():
    opposite = plane.Cloud("CE", np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0]]), np.array([0, 0, 1]), ("a", "b"))
    assert math.isnan(plane.mean_angle(opposite))
    assert "no angle between classes" in " ".join(written(plane.draw([opposite])))


def test_a_histogram_counts_each_feature_once_in_its_five_degrees():
    degrees = np.array([0.1, 4.9, 5.1, 359.9, 180.1, -90.1])
    units = np.stack([np.cos(np.radians(degrees)), np.sin(np.radians(degrees))], axis=1)
    expected = np.zeros(72)
    for angle in degrees:
        expected[int(angle % 360 // 5)] += 1 / len(degrees)
    np.testing.assert_allclose(_ring.shares(units), expected)
    assert not _ring.shares(units[:0]).any()


def test_every_cloud_has_its_features_its_circle_and_its_angle():
    figure = plane.draw([at(0, 90, label="CE", names=("cat", "dog")), at(0, 60, label="CE+OPL", names=("cat", "dog"))])
    assert len(figure.axes) == 4
    assert legend(figure) == ["cat", "dog"]
    titles = [axes.get_title(loc="left") for axes in figure.axes[::2]]
    assert titles == ["CE\nmean angle between classes 90.0°", "CE+OPL\nmean angle between classes 60.0°"]
    rays = [line.get_xydata()[1] for line in figure.axes[3].get_lines()]
    np.testing.assert_allclose(rays, [[1, 0], [0.5, math.sqrt(0.75)]])


def test_points_are_thinned_by_class_also_where_classes_take_turns():
    labels = np.arange(9000) % 3
    _, kept = _points.thin_out(rng().normal(size=(9000, 2)), labels, 600)
    assert np.bincount(kept).tolist() == [200, 200, 200]
    figure = plane.draw([cloud(samples=9000)])
    assert sum(len(dots.get_offsets()) for dots in figure.axes[0].collections) <= 2000
    page = plane.page([cloud(samples=9000)])
    assert sum(len(trace["x"]) for trace in page["data"] if trace["mode"] == "markers") == 600


def test_a_class_toggles_in_all_parts_of_the_plane():
    page = plane.page([cloud("CE"), cloud("CE+OPL")])
    assert len(page["data"]) == 2 * 3 * 2
    assert [trace["legendgroup"] for trace in page["data"]] == ["cat", "dog", "owl"] * 4
    assert [trace["showlegend"] for trace in page["data"]] == [True] * 3 + [False] * 9
    assert {trace["type"] for trace in page["data"]} == {"scatter"}
    places = [(trace["xaxis"], trace["yaxis"]) for trace in page["data"][::3]]
    assert places == [("x1", "y1"), ("x3", "y3"), ("x2", "y2"), ("x4", "y4")]
    assert [note["text"].split("<br>")[0] for note in page["layout"]["annotations"]] == ["CE", "CE+OPL"]


# Figure 3


def test_the_band_is_scipys_interval_over_the_seeds_that_are_there():
    stats = pytest.importorskip("scipy.stats", reason="scipy is not installed")
    values = rng().normal(size=(4, 3))
    values[3, 1] = np.nan
    values[1:, 2] = np.nan
    mean, low, high = training.band(training.Curve("CE", (1, 2, 3), (0, 1, 2, 3), values))
    for epoch, seeds in ((0, values[:, 0]), (1, values[:3, 1])):
        expected = stats.t.interval(0.95, len(seeds) - 1, loc=seeds.mean(), scale=stats.sem(seeds))
        assert (low[epoch], high[epoch]) == pytest.approx(expected)
        assert mean[epoch] == pytest.approx(seeds.mean())
    assert mean[2] == low[2] == high[2] == values[0, 2]


def test_an_epoch_that_no_seed_has_is_left_out():
    gap = training.Curve("CE", (1, 2, 3), (0,), np.array([[1.0, np.nan, 3.0]]))
    assert math.isnan(training.band(gap)[0][1])
    assert training.page([gap], "s")["data"][0]["y"] == [1.0, None, 3.0]
    assert training.page([gap], "s")["data"][1]["x"] == [1, 3, 3, 1]
    [line] = training.draw({"s": [gap]}).axes[0].get_lines()
    assert line.get_xdata().tolist() == [1, 3]


def test_there_is_a_panel_for_each_measure_and_one_legend():
    figure = DRAWN["training"]()
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["s", "d"]
    assert [(len(axes.get_lines()), len(axes.collections)) for axes in figure.axes] == [(2, 2), (2, 2)]
    assert legend(figure) == ["CE", "CE+OPL"]
    assert [line.get_color() for line in figure.axes[1].get_lines()] == [style.PALETTE[0], style.ACCENT]


def test_means_are_shown_and_seeds_wait_to_be_asked_for():
    data = training.page([curve("CE", seeds=3), curve("CE+OPL", seeds=2)], "s")["data"]
    mean = {"kind": "mean"}
    seeds = [{"kind": "seed", "seed": seed} for seed in range(3)]
    assert [trace["meta"] for trace in data] == [mean, mean, *seeds, mean, mean, *seeds[:2]]
    assert all(trace.get("visible", True) is (trace["meta"] == mean) for trace in data)
    assert [trace["name"] for trace in data] == ["CE"] * 5 + ["CE+OPL"] * 4
    np.testing.assert_allclose(data[3]["y"], curve().values[1], atol=1e-5)
    for kind in ("mean", "seed"):  # whichever the page shows, the legend names each curve once
        listed = [trace["name"] for trace in data if trace["meta"]["kind"] == kind and trace.get("showlegend", True)]
        assert listed == ["CE", "CE+OPL"]


# Figures 4 and s3


def test_the_off_diagonal_mean_is_that_of_a_double_loop():
    given = matrix(count=7)
    pairs = [abs(given.values[i, j]) for i, j in permutations(range(7), 2)]
    assert similarity.off_diagonal_mean(given) == pytest.approx(sum(pairs) / len(pairs))


def test_a_class_without_samples_takes_no_part_in_the_mean():
    values = np.array([[1.0, 0.5, np.nan], [0.5, 1.0, np.nan], [np.nan] * 3])
    assert similarity.off_diagonal_mean(similarity.Matrix("CE", values, ("a", "b", "c"))) == 0.5
    assert similarity.off_diagonal_mean(similarity.Matrix("CE", np.ones((1, 1)), ("a",))) == 0


@pytest.mark.parametrize("options", [{}, {"by": "cluster"}, {"groups": (2, 0, 1, 2, 0, 1)}])
def test_another_order_keeps_the_value_of_every_pair_of_names(options):
    given = matrix()
    got = similarity.reorder(given, **options)
    assert sorted(got.class_names) == sorted(given.class_names)
    for one, other in permutations(given.class_names, 2):
        before = given.values[given.class_names.index(one), given.class_names.index(other)]
        assert got.values[got.class_names.index(one), got.class_names.index(other)] == before


def test_clusters_stand_together_and_groups_keep_that_order_within():
    pairs = {("whale", "shark"), ("pear", "apple"), ("bus", "tram")}
    names = ("whale", "pear", "bus", "apple", "tram", "shark")
    values = np.array([[1.0 if a == b else 0.9 if {(a, b), (b, a)} & pairs else 0.1 for b in names] for a in names])
    values[0, 5] = values[5, 0] = -0.9  # opposite is as far from orthogonal as equal
    got = similarity.reorder(similarity.Matrix("CE", values, names), by="cluster").class_names
    assert {frozenset(got[i : i + 2]) for i in (0, 2, 4)} == {frozenset(pair) for pair in pairs}
    groups = (1, 0, 1, 0, 1, 1)
    grouped = similarity.reorder(similarity.Matrix("CE", values, names), by="cluster", groups=groups).class_names
    assert set(grouped[:2]) == {"pear", "apple"}
    assert [name for name in got if name not in ("pear", "apple")] == list(grouped[2:])
    assert similarity.reorder(similarity.Matrix("CE", values, names), groups=groups).class_names == (
        *("pear", "apple", "whale", "bus", "tram", "shark"),
    )


def test_classes_without_samples_can_be_clustered_too():
    values = np.full((3, 3), np.nan)
    values[:2, :2] = [[1.0, 0.4], [0.4, 1.0]]
    assert len(similarity.reorder(similarity.Matrix("CE", values, ("a", "b", "c")), by="cluster").class_names) == 3


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


def test_matrices_share_one_scale_and_say_their_mean():
    figure = DRAWN["similarity"]()
    assert len(figure.axes) == 3  # two and the color bar
    images = [axes.images[0] for axes in figure.axes[:2]]
    assert {image.get_clim() for image in images} == {(0, 1)}
    np.testing.assert_array_equal(images[0].get_array(), np.abs(matrix().values))
    mean = similarity.off_diagonal_mean(matrix())
    assert [axes.get_title(loc="left") for axes in figure.axes[:2]] == [
        f"{label}\noff-diagonal mean {mean:.3f}" for label in ("CE", "CE+OPL")
    ]


@pytest.mark.parametrize(("count", "shown"), [(30, 30), (31, 7), (100, 20)])
def test_beyond_thirty_classes_every_fifth_is_named(count, shown):
    axes = similarity.draw([matrix(count=count)]).axes[0]
    labels = [label.get_text() for label in axes.get_yticklabels()]
    assert labels == [f"class {i}" for i in range(0, count, 1 if count == 30 else 5)]
    assert len(labels) == len(axes.get_xticklabels()) == shown


def test_the_page_of_a_matrix_names_both_classes_of_a_cell():
    page = similarity.page(matrix(names=("0", "1", "2", "3", "4", "5")))
    [cells] = page["data"]
    assert cells["x"] == cells["y"] == ["0", "1", "2", "3", "4", "5"]
    assert page["layout"]["xaxis"]["type"] == page["layout"]["yaxis"]["type"] == "category"
    np.testing.assert_allclose(cells["z"], np.abs(matrix().values), atol=5e-4)
    assert cells["hovertemplate"] == "%{y} · %{x}: %{z:.3f}<extra></extra>"
    assert page["layout"]["xaxis"].get("showticklabels", True)
    large = similarity.page(matrix(count=41))["layout"]
    assert not large["xaxis"]["showticklabels"]
    assert not large["yaxis"]["showticklabels"]


# Figure 5


def guesses(samples=40, classes=7):
    random = rng()
    labels = random.integers(0, classes, samples)
    top = [np.stack([random.permutation(classes)[:5] for _ in range(samples)]) for _ in range(2)]
    top[1][: samples // 2, 0] = labels[: samples // 2]  # so that there is something to find
    p = [np.sort(random.dirichlet(np.ones(5), samples), axis=1)[:, ::-1] for _ in range(2)]
    return labels, top[0], p[0], top[1], p[1]


def test_mended_pictures_are_those_of_a_loop():
    labels, old, old_p, new, new_p = guesses()
    pixels = rng().integers(0, 256, (30, 8, 8, 3), dtype=np.uint8)
    names = tuple("abcdefg")
    found = []
    for i in range(30):  # ten of the forty samples have no pixels
        if new[i, 0] == labels[i] and old[i, 0] != labels[i]:
            found.append((-new_p[i, 0], i))
    expected = [i for _, i in sorted(found)]
    got = gallery.find_corrected(pixels, labels, old, old_p, new, new_p, names, limit=100)
    assert len(got) == len(expected) > 5
    for picture, i in zip(got, expected, strict=True):
        np.testing.assert_array_equal(picture.pixels, pixels[i])
        assert picture.truth == names[labels[i]] == picture.after[0][0] != picture.before[0][0]
        assert picture.before == tuple((names[c], p) for c, p in zip(old[i], old_p[i], strict=True))
        assert picture.after == tuple((names[c], p) for c, p in zip(new[i], new_p[i], strict=True))
    short = gallery.find_corrected(pixels, labels, old, old_p, new, new_p, names, limit=3)
    assert [one.truth for one in short] == [one.truth for one in got[:3]]
    assert gallery.find_corrected(pixels[:0], labels, old, old_p, new, new_p, names) == []


@pytest.mark.parametrize(
    ("size", "enlarged"),
    [((8, 8), (96, 96)), ((28, 28), (112, 112)), ((32, 64), (192, 96)), ((96, 96), (96, 96)), ((224, 200), (200, 224))],
)
@pytest.mark.parametrize("channels", [1, 3])
def test_a_small_picture_is_enlarged_without_a_blur(size, enlarged, channels):
    image = pytest.importorskip("PIL.Image", reason="pillow is not installed")
    pixels = rng().integers(0, 256, (*size, channels), dtype=np.uint8)
    head, data = gallery.png(pixels).split(",")
    assert head == "data:image/png;base64"
    shown = image.open(io.BytesIO(base64.b64decode(data)))
    assert shown.size == enlarged
    factor = enlarged[1] // size[0]
    back = np.asarray(shown).reshape(size[0] * factor, size[1] * factor, channels)[::factor, ::factor]
    np.testing.assert_array_equal(back, pixels)


def test_each_picture_stands_beside_the_guesses_of_both_models():
    figure = DRAWN["gallery"]()
    assert len(figure.axes) == 3 * 3
    words = written(figure)
    for word in ("CE", "CE+OPL", "owl", "bee", "90 %", "60 %"):
        assert word in words
    true = [axes.patches[1] for axes in figure.axes[1::3]]  # the second guess of the first model
    from matplotlib.colors import to_rgb

    assert {bar.get_facecolor()[:3] for bar in true} == {to_rgb(style.ACCENT)}


def test_the_page_of_pictures_is_plain_values():
    [one] = gallery.page([picture("<b>cat</b>")])
    assert one.pop("image").startswith("data:image/png;base64,")
    assert one == {
        "truth": "<b>cat</b>",
        "before": [["dog", 0.6], ["<b>cat</b>", 0.4]],
        "after": [["<b>cat</b>", 0.9], ["dog", 0.1]],
    }


# Figure 6 and table 8


def test_sweeps_have_intervals_and_the_baseline_a_band():
    stats = pytest.importorskip("scipy.stats", reason="scipy is not installed")
    line, band, points = search.page([sweep()], "lambda", "accuracy")["data"]
    assert line["y"] == [70.5, 70.5]
    half = stats.t.ppf(0.975, 1) * 0.5
    np.testing.assert_allclose(band["y"], [70.5 + half] * 2 + [70.5 - half] * 2, atol=1e-3)
    assert points["y"] == [71.5, 73.25, 70.0]
    np.testing.assert_allclose(points["error_y"]["array"], [half, half / 2, 0], atol=1e-3)
    assert (line["name"], points["name"]) == ("baseline", "CE+OPL")


def test_baselines_that_are_the_same_are_drawn_once():
    one, other = (70.0, 71.0), (60.0, 61.0)
    names = [
        trace["name"] for trace in search.page([sweep("a", one), sweep("b", one), sweep("c", None)], "", "")["data"]
    ]
    assert names == ["baseline", "baseline", "a", "b", "c"]
    names = [trace["name"] for trace in search.page([sweep("a", one), sweep("b", other)], "", "")["data"]]
    assert names == ["baseline of a", "baseline of a", "baseline of b", "baseline of b", "a", "b"]


def test_the_axes_are_logarithmic_with_the_values_that_were_tried():
    batches = search.Sweep("CE", "batch size", (512, 64, 128), ((70.0,), (71.0,), (np.nan,)), None)
    left, right = search.draw({"lambda": [sweep()], "batch size": [batches]}).axes
    assert (left.get_xscale(), left.xaxis.get_transform().base, right.xaxis.get_transform().base) == ("log", 10, 2)
    assert [label.get_text() for label in left.get_xticklabels()] == ["0.1", "1", "2"]
    assert [label.get_text() for label in right.get_xticklabels()] == ["64", "128", "512"]
    assert right.get_lines()[0].get_xdata().tolist() == [64, 512]  # in order, and nothing where there is no number
    assert (left.get_xlabel(), right.get_xlabel()) == ("lambda", "batch size")
    axis = search.page([batches], "batch size", "")["layout"]["xaxis"]
    assert (axis["type"], axis["tickvals"], axis["ticktext"]) == ("log", [64, 128, 512], ["64", "128", "512"])


def test_the_sweeps_in_print_have_the_baseline_in_the_legend():
    figure = DRAWN["search"]()
    assert legend(figure) == ["baseline", "CE+OPL", "CE", "CE+OPL"]
    assert [len(axes.containers) for axes in figure.axes] == [1, 2]


def test_the_heat_map_writes_its_numbers_and_leaves_gaps_empty():
    [cells] = search.heat([0.1, 1.0], [2.0, 0.5], np.array([[70.126, 71.0], [np.nan, 72.2]]))["data"]
    assert cells["text"] == [["70.13", "71.00"], ["", "72.20"]]
    assert cells["z"] == [[70.126, 71.0], [None, 72.2]]
    assert (cells["y"], cells["x"]) == (["0.1", "1"], ["2", "0.5"])


# Figure s1


def by_pairs(features, labels):
    """Between over within from distances of pairs: n_c times the within scatter of c is the sum over its pairs."""

    def spread(rows):
        return sum(((one - other) ** 2).sum() for one, other in combinations(rows, 2)) / len(rows)

    within = sum(spread(features[labels == label]) for label in np.unique(labels))
    return (spread(features) - within) / within


def test_separation_is_that_of_a_double_loop_and_does_not_see_rotation_or_scale():
    features, labels = rng().normal(size=(30, 5)), np.arange(30) % 4
    features += labels[:, None]
    expected = by_pairs(features, labels)
    turn, _ = np.linalg.qr(rng().normal(size=(5, 5)))
    assert lda.separation(features, labels) == pytest.approx(expected)
    assert lda.separation(7 * features @ turn + 3, labels) == pytest.approx(expected)
    order = rng().permutation(30)
    assert lda.separation(features[order], 10 - labels[order]) == pytest.approx(expected)
    holed = np.concatenate([features, [[np.inf] * 5]])
    assert lda.separation(holed, np.append(labels, 0)) == pytest.approx(expected)


def test_classes_of_no_width_are_infinitely_separate_and_one_point_is_not():
    assert lda.separation(np.array([[0.0], [1.0]]), np.array([0, 1])) == math.inf
    assert lda.separation(np.array([[1.0], [1.0]]), np.array([0, 1])) == 0


@pytest.mark.parametrize(("samples", "width"), [(60, 5), (20, 64)])
def test_the_projection_is_scikit_learns_up_to_sign(samples, width):
    analysis = pytest.importorskip("sklearn.discriminant_analysis", reason="scikit-learn is not installed")
    features, labels = rng().normal(size=(samples, width)), np.arange(samples) % 4
    expected = analysis.LinearDiscriminantAnalysis(n_components=2).fit(features, labels).transform(features)
    np.testing.assert_allclose(np.abs(lda.project(features, labels)), np.abs(expected), atol=1e-8)


def test_two_classes_have_one_direction_and_bad_rows_none():
    features, labels = rng().normal(size=(20, 5)), np.arange(20) % 2
    features[3, 2] = np.nan
    points = lda.project(features, labels)
    assert points.shape == (20, 2)
    assert np.isnan(points[3]).all()
    kept = np.delete(points, 3, axis=0)
    assert not kept[:, 1].any()
    np.testing.assert_allclose(kept, lda.project(np.delete(features, 3, axis=0), np.delete(labels, 3)))


def test_classes_that_collapsed_to_points_keep_their_distances():
    labels = np.arange(9) % 3
    np.testing.assert_allclose(lda.project(np.full((9, 4), 0.1), labels), np.zeros((9, 2)), atol=1e-9)
    points = lda.project(np.eye(3)[labels], labels)
    for i, j in combinations(range(9), 2):
        expected = 0 if labels[i] == labels[j] else math.sqrt(2)
        assert np.linalg.norm(points[i] - points[j]) == pytest.approx(expected)


def test_each_row_of_panels_has_one_legend():
    figure = DRAWN["lda"]()
    assert len(figure.axes) == 4
    assert [bool(axes.get_legend()) for axes in figure.axes] == [False, True, False, True]
    assert legend(figure) == ["cat", "dog", "owl", "bee", "fox"]
    assert figure.axes[0].get_title(loc="left") == f"CE\nseparation {panel().separation:.2f}"
    ragged = lda.draw([[panel()], [panel(), panel()]])
    assert not ragged.axes[1].axison


def test_classes_of_different_panels_share_a_color_only_with_themselves():
    page = lda.page([panel("base", ("cat", "dog")), panel("novel", ("dog", "owl"))])
    assert [trace["name"] for trace in page["data"]] == ["cat", "dog", "dog", "owl"]
    colors = [trace["marker"]["color"] for trace in page["data"]]
    assert colors[1] == colors[2]
    assert len(set(colors)) == 3
    assert [trace["showlegend"] for trace in page["data"]] == [True, True, False, True]


# What all of them promise


@pytest.mark.parametrize("name", DRAWN)
def test_equal_input_gives_equal_files(name, tmp_path):
    first, second = (style.save(DRAWN[name](), tmp_path / folder / "a.b") for folder in ("one", "two"))
    assert [path.name for path in first] == ["a.b.pdf", "a.b.png"]
    contents = [path.read_bytes() for path in first]
    assert contents == [path.read_bytes() for path in second]
    assert contents[0].startswith(b"%PDF")
    assert contents[1].startswith(b"\x89PNG")
    assert not list(tmp_path.rglob(".*"))


def test_a_figure_saved_again_is_the_same(tmp_path):
    figure = DRAWN["similarity"]()
    first, second = (style.save(figure, tmp_path / name) for name in ("one", "two"))
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]


def test_a_folder_that_cannot_be_written_to_says_so(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(FolderError, match="give another folder"):
        style.save(DRAWN["search"](), tmp_path / "file" / "figure")


def test_a_figure_that_fails_leaves_no_file_behind(tmp_path):
    figure = DRAWN["search"]()

    def half(path, **_):
        path.write_bytes(b"half")
        raise MemoryError

    figure.savefig = half
    with pytest.raises(MemoryError):
        style.save(figure, tmp_path / "figure")
    assert not list(tmp_path.iterdir())


def test_drawing_leaves_the_users_settings_alone():
    import matplotlib

    with matplotlib.rc_context({"font.size": 31, "axes.facecolor": "red"}):
        before = dict(matplotlib.rcParams)
        figure = DRAWN["search"]()
        assert dict(matplotlib.rcParams) == before
    assert all(word.get_fontsize() < 20 for word in figure.axes[0].get_xticklabels())
    assert figure.axes[0].get_facecolor() == (1, 1, 1, 1)


@pytest.mark.parametrize("names", [("cat", "dog", "owl"), HOSTILE], ids=["plain", "hostile"])
@pytest.mark.parametrize("name", PAGES)
def test_plotly_accepts_every_page_and_json_too(name, names):
    plotly = pytest.importorskip("plotly.graph_objects", reason="plotly is not installed")
    page = PAGES[name](names)
    text = json.dumps(page, allow_nan=False)
    assert set(page) == {"data", "layout"}
    plotly.Figure(page)
    assert json.loads(text) == page  # nothing but lists, dicts, numbers, words and None
    assert "<b>" not in text
    assert "<img" not in text


@pytest.mark.parametrize("name", PAGES)
def test_the_page_itself_chooses_the_colors_of_letters_and_axes(name):
    layout = PAGES[name](("cat", "dog", "owl"))["layout"]
    assert layout["paper_bgcolor"] == layout["plot_bgcolor"] == "rgba(0,0,0,0)"
    assert "title" not in layout
    assert "color" not in layout["font"]
    axes = [value for key, value in layout.items() if key.startswith(("xaxis", "yaxis"))]
    assert all(axis["automargin"] for axis in axes)
    assert not any("color" in key for axis in axes for key in axis)


@pytest.mark.filterwarnings("ignore:Glyph")  # the font of the figure has no such letter: a box is drawn
def test_hostile_names_are_drawn_as_they_are(tmp_path):
    figures = [
        plane.draw([cloud(HOSTILE[4], names=HOSTILE)]),
        training.draw({HOSTILE[4]: [curve(name) for name in HOSTILE]}),
        similarity.draw([matrix(HOSTILE[4], len(HOSTILE), HOSTILE)]),
        gallery.draw([picture(name) for name in HOSTILE[4:6]], HOSTILE[4:6]),
        search.draw({HOSTILE[4]: [sweep(name) for name in HOSTILE]}),
        lda.draw([[panel(HOSTILE[4], HOSTILE)]]),
    ]
    for figure in figures:
        figure.draw_without_rendering()
    assert all(path.stat().st_size > 1000 for path in style.save(figures[2], tmp_path / "figure"))
    assert len(legend(figures[0])) == len(HOSTILE)


def test_labels_are_short_escaped_and_different():
    assert style.text("<b>x</b>") == "&lt;b&gt;x&lt;/b&gt;"
    assert style.text("it's") == "it's"
    assert len(style.text("x" * 90)) == 40
    assert style.text("a\x00b\nc") == "a b c"
    assert len(set(style.texts(HOSTILE))) == len(HOSTILE)
    assert style.texts(["a", "a", "a (2)", "a"]) == ["a", "a (2)", "a (2) (2)", "a (3)"]


def test_colors_and_symbols_repeat_together_only_after_seventy():
    pairs = [(style.color(i), style.marker(i)) for i in range(70)]
    assert len(set(pairs)) == 70
    assert style.color(1) == style.ACCENT
    assert len({style.glyph(i) for i in range(7)}) == len({style.marker(i) for i in range(7)}) == 7


def test_values_that_are_no_numbers_are_left_out_of_every_figure():
    bad = np.full((4, 2), np.nan)
    bad[0] = np.inf
    labels = np.array([0, 0, 1, 1])
    nothing = search.Sweep("CE", "lambda", (1.0,), ((np.nan,),), (np.inf,))
    figures = [
        plane.draw([plane.Cloud("CE", bad, labels, ("a", "b"))]),
        training.draw({"s": [training.Curve("CE", (1, 2), (0,), np.full((1, 2), np.nan))]}),
        similarity.draw([similarity.Matrix("CE", np.full((2, 2), np.nan), ("a", "b"))]),
        search.draw({"lambda": [nothing]}),
        lda.draw([[lda.Panel("CE", bad, labels, ("a", "b"), math.inf)]]),
    ]
    for figure in figures:
        figure.draw_without_rendering()
    pages = [
        plane.page([plane.Cloud("CE", bad, labels, ("a", "b"))]),
        training.page([training.Curve("CE", (1, 2), (0,), np.full((1, 2), np.nan))], "s"),
        similarity.page(similarity.Matrix("CE", np.full((2, 2), np.inf), ("a", "b"))),
        search.page([nothing], "lambda", "accuracy"),
        search.heat([1.0], [1.0], np.array([[np.nan]])),
        lda.page([lda.Panel("CE", bad, labels, ("a", "b"), math.inf)]),
    ]
    json.dumps(pages, allow_nan=False)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: plane.draw([]),
        lambda: plane.page([]),
        lambda: plane.Cloud("CE", np.zeros((0, 2)), np.zeros(0, dtype=int), ("a",)),
        lambda: plane.Cloud("CE", np.zeros((3, 3)), np.zeros(3, dtype=int), ("a",)),
        lambda: plane.Cloud("CE", np.zeros((3, 2)), np.zeros(2, dtype=int), ("a",)),
        lambda: plane.Cloud("CE", np.zeros((2, 2)), np.array([0, 1]), ("a",)),
        lambda: plane.draw([at(0, 90), at(0, 90, names=("x", "y"))]),
        lambda: training.draw({}),
        lambda: training.draw({"s": []}),
        lambda: training.page([], "s"),
        lambda: training.Curve("CE", (1, 2), (0,), np.zeros((2, 1))),
        lambda: training.Curve("CE", (), (), np.zeros((0, 0))),
        lambda: similarity.draw([]),
        lambda: similarity.Matrix("CE", np.zeros((2, 3)), ("a", "b")),
        lambda: similarity.Matrix("CE", np.zeros((0, 0)), ()),
        lambda: similarity.reorder(matrix(), by="size"),
        lambda: similarity.reorder(matrix(), groups=(1, 2)),
        lambda: similarity.describe_neighbors(matrix(), n=0),
        lambda: gallery.draw([]),
        lambda: gallery.page([]),
        lambda: gallery.png(np.zeros((4, 4), dtype=np.uint8)),
        lambda: gallery.png(np.zeros((4, 4, 3))),
        lambda: gallery.find_corrected(np.zeros((50, 4, 4, 3), dtype=np.uint8), *guesses(), tuple("abcdefg")),
        lambda: gallery.find_corrected(np.zeros((5, 4, 4, 3), dtype=np.uint8), *guesses(), tuple("ab")),
        lambda: gallery.find_corrected(np.zeros((5, 4, 4, 3), dtype=np.uint8), *guesses(), tuple("abcdefg"), limit=-1),
        lambda: gallery.find_corrected(
            np.zeros((5, 4, 4, 3), dtype=np.uint8), guesses()[0][:9], *guesses()[1:], tuple("abcdefg")
        ),
        lambda: search.draw({}),
        lambda: search.draw({"lambda": []}),
        lambda: search.page([], "lambda", "accuracy"),
        lambda: search.Sweep("CE", "lambda", (), (), None),
        lambda: search.Sweep("CE", "lambda", (1.0,), (), None),
        lambda: search.Sweep("CE", "lambda", (0.0,), ((1.0,),), None),
        lambda: search.heat([1.0], [1.0, 2.0], np.zeros((2, 1))),
        lambda: search.heat([], [], np.zeros((0, 0))),
        lambda: lda.draw([]),
        lambda: lda.draw([[]]),
        lambda: lda.page([]),
        lambda: lda.Panel("CE", np.zeros((2, 3)), np.zeros(2, dtype=int), ("a",), 0.0),
        lambda: lda.project(np.zeros((3, 4)), np.zeros(2)),
        lambda: lda.project(np.zeros((3, 4)), np.zeros(3)),
        lambda: lda.project(np.eye(3), np.arange(3)),
        lambda: lda.separation(np.zeros((0, 4)), np.zeros(0)),
    ],
)
def test_what_cannot_be_drawn_is_refused_in_one_sentence(wrong):
    with pytest.raises(OptionError, match=r"give|did you mean") as caught:
        wrong()
    assert str(caught.value).endswith(".")
    assert "\n" not in str(caught.value)


def test_neither_torch_nor_pyplot_is_needed_and_heavy_guests_come_late():
    names = ", ".join(f"opl.experiments.figures.{name}" for name in MODULES)
    script = f"""
import sys
sys.modules["torch"] = None
import {names}
heavy = [name for name in ("matplotlib", "plotly", "scipy", "sklearn", "PIL") if name in sys.modules]
assert not heavy, heavy
training = opl.experiments.figures.training
training.draw({{"s": [training.Curve("CE", (1,), (0,), training.np.ones((1, 1)))]}})
assert "matplotlib" in sys.modules
assert "matplotlib.pyplot" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", MODULES)
def test_the_docstrings_examples_are_true(name):
    failed, _ = doctest.testmod(import_module(f"opl.experiments.figures.{name}"))
    assert not failed
