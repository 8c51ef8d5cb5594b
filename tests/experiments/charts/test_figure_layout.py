"""Every figure as it is written: no text over another or cut by an edge, a footer, and a PNG that is not empty."""

import numpy as np
import pytest
from _chart_values import HOSTILE, curve
from _item_runs import write_item_runs
from _layout import recorded

from opl.experiments.charts import curves, figure, trials
from opl.experiments.charts.figure import draw_item
from opl.experiments.export.drawings import CURVES
from opl.experiments.paper import ITEMS
from opl.experiments.results.runs import read_runs

image = pytest.importorskip("PIL.Image", reason="pillow is not installed")
matplotlib_figure = pytest.importorskip("matplotlib.figure", reason="matplotlib is not installed")

QUICK = ("table-8", "table-s2", "figure-6", "figure-flow", "study")
FIGURES = [
    pytest.param(item.name, marks=[] if item.name in QUICK else [pytest.mark.slow])
    for item in ITEMS.values()
    if item.figure
]
COMMIT = "commit 06f8644cf3"


def shows_something(file, size):
    """Whether a PNG opens, has the size that was drawn, and has more than the background."""
    with image.open(file, formats=["PNG"]) as opened:
        pixels = np.asarray(opened.convert("L"))
    assert pixels.shape[::-1] == tuple(map(int, size))
    return bool((pixels < 200).mean() > 0.005 and len(np.unique(pixels)) > 10)


def check(drawing, file):
    assert drawing.words
    assert drawing.overlaps() == []
    assert drawing.cut() == []
    assert shows_something(file, drawing.size)


@pytest.fixture
def no_pdf(monkeypatch):
    """Skip PDF files, which have the same text as the PNG, to save time."""
    write = figure._write
    monkeypatch.setattr(
        figure, "_write", lambda drawn, file, **more: file.suffix == ".pdf" or write(drawn, file, **more)
    )


@pytest.mark.usefixtures("no_pdf")
@pytest.mark.parametrize("name", FIGURES)
def test_the_figure_of_an_item_is_readable(name, tmp_path, monkeypatch):
    item, scale = ITEMS[name], "paper" if ITEMS[name].at("paper") else "small"
    runs = read_runs(write_item_runs(tmp_path / "runs", item, scale))
    with recorded(monkeypatch) as drawings:
        files, _ = draw_item(item, runs, tmp_path, scale)
    pictures = [file for file in files if file.suffix == ".png"]
    assert len(pictures) == len(drawings) > 0
    for drawing, file in zip(drawings, pictures, strict=True):
        check(drawing, file)
        words = " ".join(" ".join(word.text.split()) for word in drawing.words)
        assert f"{scale} scale · seed" in words
        assert COMMIT in words
        assert runs[0].recipe["model"]["kind"] in words


def test_at_the_tiny_scale_the_data_are_called_synthetic(tmp_path):
    for name in ("figure-4", "figure-5"):
        item = ITEMS[name]
        runs = read_runs(write_item_runs(tmp_path / name, item, "tiny"))
        assert figure.describe_runs(runs).startswith("synthetic data")
    real = read_runs(write_item_runs(tmp_path / "real", item, "small"))
    assert figure.describe_runs(real).startswith("JpegCopies of mini-imagenet")
    assert figure.describe_runs([]) == ""


def test_a_footer_counts_what_differs_and_names_the_seeds(tmp_path):
    runs = read_runs(write_item_runs(tmp_path, ITEMS["figure-2"], "small", seeds=3))
    assert "Mnist, 10 classes / Mnist, 3 classes · MnistNet" in figure.describe_runs(runs)
    assert f"small scale · seeds 0 to 2 · {COMMIT}" in figure.describe_runs(runs)
    for place, run in enumerate(runs):
        run.about["commit"] = f"commit-{place}"
    assert figure.describe_runs(runs).endswith("seeds 0 to 2 · commits commit-0 and 11 more")


@pytest.mark.usefixtures("no_pdf")
def test_cosines_of_both_signs_are_readable(tmp_path, monkeypatch):
    runs = read_runs(write_item_runs(tmp_path / "runs", ITEMS["figure-4"], "small", seeds=1, signed=True))
    with recorded(monkeypatch) as drawings:
        files, _ = draw_item(ITEMS["figure-4"], runs, tmp_path, "small")
    check(drawings[0], files[1])
    assert any(word.text.startswith("cos: ") for word in drawings[0].words)


@pytest.mark.usefixtures("no_pdf")
@pytest.mark.filterwarnings("ignore:Glyph")  # the font of the figure has no such letter: a box is drawn
def test_the_trials_of_a_search_and_the_curves_of_a_model_card_are_readable(tmp_path, monkeypatch):
    settings = {
        "optimizer.lr": ["0.001", "0.02", "0.3", "0.25"],
        "method.form": ["mean_abs", "abs_mean", "mean", "mean"],
        "schedule": ["Cosine(warmup=1)", "Steps", "OneCycle", "Staircase(hold=2)"],
        "hostile": list(HOSTILE[:4]),
    }
    searched = trials.draw(settings, [60.0, 61.0, 70.0, 66.0], 2, "val/top1", {"schedule": 0.4}, ["optimizer.lr"])
    card = curves.draw({title: [curve("CE"), curve("CE+OPL")] for title in CURVES.values()})
    for drawn in (searched, card):
        figure.add_footer(drawn, "Digits, 10 classes · DigitsNet (width 32) · small scale · seeds 0 to 2 · " + COMMIT)
        with recorded(monkeypatch) as drawings:
            _, file = figure.save(drawn, tmp_path / "figure")
        check(drawings[0], file)


def test_overlapping_texts_cut_texts_and_an_empty_picture_are_detected(tmp_path, monkeypatch):
    over, blank = (matplotlib_figure.Figure(figsize=(3, 2)) for _ in range(2))
    over.text(0.4, 0.5, "one")
    over.text(0.43, 0.52, "two")
    over.text(0.1, 0.1, "three")
    over.text(0.95, 0.9, "beyond the edge")
    with recorded(monkeypatch) as drawings:
        over.savefig(tmp_path / "over.png")
        blank.savefig(tmp_path / "blank.png")
    assert drawings[0].overlaps() == ["'one' over 'two'"]
    assert drawings[0].cut() == ["beyond the edge"]
    assert not shows_something(tmp_path / "blank.png", drawings[1].size)
    crowded = matplotlib_figure.Figure(figsize=(2, 2))
    crowded.subplots().set_xticks(range(6), [f"a long name {place}" for place in range(6)])
    with recorded(monkeypatch) as drawings:
        figure.save(crowded, tmp_path / "crowded")
    assert len(drawings[0].overlaps()) >= 5
