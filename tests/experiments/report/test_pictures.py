"""The pictures on the page."""

import pytest
from _written_page import page_of

from _page import Reader
from _runs import opl, write_run, write_table
from opl.experiments.report import charts


@pytest.fixture(autouse=True)
def _small_library(monkeypatch):
    """Four megabytes of plotly in every page would only slow these tests down."""
    monkeypatch.setattr(charts, "library", lambda: "/* plotly */")


def test_runs_without_outputs_have_no_pictures(tmp_path):
    write_run(tmp_path, "cifar100-ce")
    write_run(tmp_path, "cifar100-opl", method=opl(1.0))
    read = Reader(page_of(tmp_path))
    assert "geometry" in read.ids
    assert "pictures" not in read.ids
    assert "settings" not in read.ids


def test_pictures_carry_their_class_in_words(tmp_path):
    read = Reader(page_of(write_table(tmp_path, seeds=1)))
    images = [given for name, given in read.tags if name == "img"]
    assert 0 < len(images) <= 12
    assert all(given["alt"].startswith("Test picture of the class ") for given in images)
