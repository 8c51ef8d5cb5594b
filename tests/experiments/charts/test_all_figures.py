"""What all figures promise: hostile names, gaps, and sentences for what cannot be drawn."""

import doctest
import math
import subprocess
import sys
from importlib import import_module

import numpy as np
import pytest
from _figure_values import HOSTILE, at, cloud, curve, guesses, legend, matrix, panel, picture, sweep

from opl.errors import OptionError
from opl.experiments.charts import forest, gallery, grid, lda, plane, search, similarity, style, training

pytest.importorskip("matplotlib", reason="matplotlib is not installed")


MODULES = (
    "style", "_points", "_ring", "_sweeps", "_picture", "_pairs", "rendering", "footer",
    "plane", "features", "training", "similarity", "neighbors", "gallery", "search", "grid", "widths", "lda", "flow",
    "trials", "forest", "paper",
)  # fmt: skip


@pytest.mark.filterwarnings("ignore:Glyph")  # the font of the figure has no such letter: a box is drawn
def test_hostile_names_are_drawn_as_they_are(tmp_path):
    figures = [
        plane.draw([cloud(HOSTILE[4], names=HOSTILE)]),
        training.draw({HOSTILE[4]: [curve(name) for name in HOSTILE]}),
        similarity.draw([matrix(HOSTILE[4], len(HOSTILE), HOSTILE)]),
        gallery.draw({HOSTILE[7]: [picture(name) for name in HOSTILE[4:6]]}, HOSTILE[4:6]),
        search.draw({HOSTILE[4]: [sweep(name) for name in HOSTILE]}),
        lda.draw([[panel(HOSTILE[4], HOSTILE)]]),
    ]
    for figure in figures:
        figure.draw_without_rendering()
    assert all(path.stat().st_size > 1000 for path in style.save(figures[2], tmp_path / "figure"))
    assert len(legend(figures[0])) == len(HOSTILE)


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


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: plane.draw([]),
        lambda: plane.Cloud("CE", np.zeros((0, 2)), np.zeros(0, dtype=int), ("a",)),
        lambda: plane.Cloud("CE", np.zeros((3, 3)), np.zeros(3, dtype=int), ("a",)),
        lambda: plane.Cloud("CE", np.zeros((3, 2)), np.zeros(2, dtype=int), ("a",)),
        lambda: plane.Cloud("CE", np.zeros((2, 2)), np.array([0, 1]), ("a",)),
        lambda: plane.draw([at(0, 90), at(0, 90, names=("x", "y"))]),
        lambda: training.draw({}),
        lambda: training.draw({"s": []}),
        lambda: training.Curve("CE", (1, 2), (0,), np.zeros((2, 1))),
        lambda: training.Curve("CE", (), (), np.zeros((0, 0))),
        lambda: similarity.draw([]),
        lambda: similarity.Matrix("CE", np.zeros((2, 3)), ("a", "b")),
        lambda: similarity.Matrix("CE", np.zeros((0, 0)), ()),
        lambda: similarity.reorder(matrix(), by="size"),
        lambda: similarity.reorder(matrix(), groups=(1, 2)),
        lambda: similarity.describe_neighbors(matrix(), n=0),
        lambda: gallery.draw({"fixed": [], "broken": []}),
        lambda: gallery.Picture(np.zeros((4, 4), dtype=np.uint8), "cat", (), ()),
        lambda: gallery.Picture(np.zeros((4, 4, 3)), "cat", (), ()),
        lambda: gallery.find_corrected(np.zeros((50, 4, 4, 3), dtype=np.uint8), *guesses(), tuple("abcdefg")),
        lambda: gallery.find_corrected(np.zeros((5, 4, 4, 3), dtype=np.uint8), *guesses(), tuple("ab")),
        lambda: gallery.find_corrected(np.zeros((5, 4, 4, 3), dtype=np.uint8), *guesses(), tuple("abcdefg"), limit=-1),
        lambda: gallery.find_corrected(
            np.zeros((5, 4, 4, 3), dtype=np.uint8), guesses()[0][:9], *guesses()[1:], tuple("abcdefg")
        ),
        lambda: search.draw({}),
        lambda: search.draw({"lambda": []}),
        lambda: search.Sweep("CE", "lambda", (), (), None),
        lambda: search.Sweep("CE", "lambda", (1.0,), (), None),
        lambda: search.Sweep("CE", "lambda", (0.0,), ((1.0,),), None),
        lambda: grid.draw([]),
        lambda: forest.draw([]),
        lambda: lda.draw([]),
        lambda: lda.draw([[]]),
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
    names = ", ".join(f"opl.experiments.charts.{name}" for name in MODULES)
    script = f"""
import sys
sys.modules["torch"] = None
import {names}
heavy = [name for name in ("matplotlib", "scipy", "sklearn", "PIL") if name in sys.modules]
assert not heavy, heavy
training = opl.experiments.charts.training
training.draw({{"s": [training.Curve("CE", (1,), (0,), training.np.ones((1, 1)))]}})
assert "matplotlib" in sys.modules
assert "matplotlib.pyplot" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", MODULES)
def test_the_docstrings_examples_are_true(name):
    failed, _ = doctest.testmod(import_module(f"opl.experiments.charts.{name}"))
    assert not failed
