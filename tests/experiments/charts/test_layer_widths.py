"""Table S2's figure: the widths of every layer, stage by stage."""

from dataclasses import replace

import pytest

from _runs import write_run
from opl.experiments.charts import layer_widths
from opl.experiments.item import Row
from opl.experiments.results.runs import read_runs, select_runs
from opl.experiments.widths import uniform_widths

pytest.importorskip("matplotlib", reason="matplotlib is not installed")


def searched(tmp_path, name: str, **scaling):
    for seed in (0, 1):
        write_run(tmp_path, name, seed)
    runs = [run for run in read_runs(tmp_path) if run.name == name]
    return [
        replace(run, recipe={**run.recipe, "model": {"ratio": 0.25}}, result={**run.result, "scaling": scaling})
        for run in runs
    ]


def test_a_search_is_drawn_from_the_uniform_network_to_its_result(tmp_path):
    history = [[16, 32, 64], [20, 30, 60]]
    runs = searched(tmp_path, "vgg", network="vgg11", widths=[22, 28, 50], history=history)
    rows = [(Row("VGG-11", "vgg", {}), select_runs(runs, "vgg", "small")), (Row("VGG-11+OPL", "opl", {}, "vgg"), runs)]
    rendered = layer_widths.render(rows, "class")
    [axes] = rendered.figures[""].axes
    lines = {line.get_label(): line.get_ydata().tolist() for line in axes.get_lines() if line.get_linestyle() != "None"}
    assert lines == {"uniform": [16, 32, 64], "search 1": [20, 30, 60], "search 2": [22, 28, 50]}
    assert "VGG-11, search 2, seed 1: 22, 28, 50" in rendered.text


def test_without_a_search_the_published_widths_follow_the_uniform_widths(tmp_path):
    runs = searched(tmp_path, "vgg", network="vgg11", widths=[80] * 8, history=[])
    assert layer_widths.stages_of(runs) == {
        "uniform": [uniform_widths("vgg11", 0.25)] * 2,
        "published": [(80,) * 8] * 2,
    }
