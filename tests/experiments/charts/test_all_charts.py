"""All charts: hostile names, values that are not finite, errors for what cannot be drawn, and light imports."""

import doctest
import math
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from _chart_values import HOSTILE, cloud, curve, legend, matrix, panel, picture, sweep

from opl.errors import OptionError
from opl.experiments import charts
from opl.experiments.charts import curves, figure, gallery, lda, plane, similarity, sweeps, weight_grid
from opl.experiments.charts.points import Space

MODULES = sorted(path.stem for path in Path(charts.__file__).parent.glob("*.py") if path.stem != "__init__")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Glyph")  # the font of the figure has no such letter: a box is drawn
def test_hostile_names_are_drawn_unchanged(tmp_path):
    figures = [
        plane.draw([cloud(HOSTILE[4], names=HOSTILE)]),
        curves.draw({HOSTILE[4]: [curve(name) for name in HOSTILE]}),
        similarity.draw([matrix(HOSTILE[4], len(HOSTILE), HOSTILE)]),
        gallery.draw({HOSTILE[7]: [picture(name) for name in HOSTILE[4:6]]}, HOSTILE[4:6]),
        sweeps.draw({HOSTILE[4]: [sweep(name) for name in HOSTILE]}),
        lda.draw([[panel(HOSTILE[4], HOSTILE)]]),
    ]
    for drawn in figures:
        drawn.draw_without_rendering()
    assert all(path.stat().st_size > 1000 for path in figure.save(figures[2], tmp_path / "figure"))
    assert len(legend(figures[0])) == len(HOSTILE)


def test_values_that_are_not_finite_are_left_out_of_every_figure():
    bad = np.full((4, 2), np.nan)
    bad[0] = np.inf
    labels = np.array([0, 0, 1, 1])
    nothing = sweeps.Sweep("CE", "lambda", (1.0,), ((np.nan,),), (np.inf,))
    figures = [
        plane.draw([Space("CE", bad, labels, ("a", "b"))]),
        curves.draw({"s": [curves.Curve("CE", (1, 2), (0,), np.full((1, 2), np.nan))]}),
        similarity.draw([similarity.Matrix("CE", np.full((2, 2), np.nan), ("a", "b"))]),
        sweeps.draw({"lambda": [nothing]}),
        lda.draw([[lda.Panel("CE", bad, labels, ("a", "b"), math.inf)]]),
    ]
    for drawn in figures:
        drawn.draw_without_rendering()


WRONG = (
    lambda: Space("CE", np.zeros((0, 4)), np.zeros(0), ("a",)),
    lambda: Space("CE", np.zeros((3, 4)), np.zeros(2), ("a",)),
    lambda: plane.mean_angle(Space("CE", np.zeros((3, 3)), np.zeros(3, dtype=int), ("a",))),
    lambda: Space("CE", np.zeros((2, 2)), np.array([0, 1]), ("a",)),
    lambda: similarity.Matrix("CE", np.zeros((2, 3)), ("a", "b")),
    lambda: similarity.Matrix("CE", np.zeros((0, 0)), ()),
    lambda: gallery.Picture(np.zeros((4, 4), dtype=np.uint8), "cat", (), ()),
    lambda: gallery.Picture(np.zeros((4, 4, 3)), "cat", (), ()),
    lambda: sweeps.draw({}),
    lambda: weight_grid.draw([]),
    lambda: lda.Panel("CE", np.zeros((2, 2)), np.zeros(3, dtype=int), ("a",), 0.0),
    lambda: lda.project(np.zeros((3, 4)), np.zeros(2)),
    lambda: lda.project(np.zeros((3, 4)), np.zeros(3)),
    lambda: lda.project(np.eye(3), np.arange(3)),
    lambda: lda.separation(np.zeros((0, 4)), np.zeros(0)),
)


@pytest.mark.parametrize("wrong", WRONG)
def test_values_that_cannot_be_drawn_are_an_error_of_one_sentence(wrong):
    with pytest.raises(OptionError, match=r"[:;] (pass|add) ") as caught:
        wrong()
    assert str(caught.value).endswith(".")
    assert "\n" not in str(caught.value)


def test_charts_need_neither_torch_nor_pyplot_and_import_heavy_libraries_late():
    names = ", ".join(f"opl.experiments.charts.{name}" for name in MODULES)
    script = f"""
import sys
sys.modules["torch"] = None
import {names}
heavy = [name for name in ("matplotlib", "scipy", "sklearn", "PIL") if name in sys.modules]
assert not heavy, heavy
curves = opl.experiments.charts.curves
curves.draw({{"s": [curves.Curve("CE", (1,), (0,), curves.np.ones((1, 1)))]}})
assert "matplotlib" in sys.modules
assert "matplotlib.pyplot" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def test_examples_in_docstrings_are_true():
    for name in MODULES:
        failed, _ = doctest.testmod(import_module(f"opl.experiments.charts.{name}"))
        assert not failed, name
