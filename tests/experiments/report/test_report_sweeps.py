"""The search on the page."""

import pytest
from _written_page import page_of

from _page import Reader
from _runs import write_everything
from opl.experiments.report import charts


@pytest.fixture(autouse=True)
def _small_library(monkeypatch):
    """Four megabytes of plotly in every page would only slow these tests down."""
    monkeypatch.setattr(charts, "library", lambda: "/* plotly */")


def test_a_search_is_drawn_where_settings_differ(tmp_path):
    read = Reader(page_of(write_everything(tmp_path)))
    heat = next(values for values in read.values if isinstance(values, dict) and "texttemplate" in values["data"][0])
    assert heat["data"][0]["y"] == ["0.1", "0.5", "1", "2"]
    assert heat["data"][0]["x"] == ["0.5", "1"]
    assert heat["data"][0]["z"][2][1] is None  # weight 1 with gamma 1 was never run
    over = next(
        values for values in read.values if isinstance(values, dict) and values["layout"]["xaxis"].get("type") == "log"
    )
    lines = [trace["name"] for trace in over["data"] if trace["mode"] != "markers"]
    assert lines == ["baseline", "baseline", "CE+OPL, γ 0.5", "CE+OPL, γ 1"]
