"""NeuralScale as runs: each search after the one before, the final training after the last, all resumable."""

from dataclasses import replace

import pytest
from _small_parts import at_step

from opl.experiments import paper
from opl.experiments.export.bundle import export_network
from opl.experiments.methods import CrossEntropy, Pruning
from opl.experiments.models import Vgg11
from opl.experiments.models.neural_scale import gates_of
from opl.experiments.paper import table_s2
from opl.experiments.results.conformity import screen
from opl.experiments.results.runs import read_runs
from opl.experiments.run_folder import RunFolder
from opl.experiments.training.build import finished_model
from opl.experiments.training.run import run
from opl.experiments.widths import PowerLaw, count_parameters, rebuild, uniform_widths

pytestmark = pytest.mark.usefixtures("one_thread")
SEARCH = paper.recipe(table_s2.name_of("vgg11", "search-1"), "tiny")


def die():
    raise KeyError


def test_a_search_that_was_killed_and_resumed_ends_with_the_same_widths(tmp_path):
    recipe = replace(SEARCH, checkpoint_every="3 steps")
    whole = run(recipe, tmp_path / "whole")
    for epoch, step in ((1, 4), (2, 7)):
        with at_step(epoch, step, die), pytest.raises(KeyError):
            run(recipe, tmp_path / "killed")
    killed = run(recipe, tmp_path / "killed")
    assert len(whole["fit"]["records"]) > 6
    assert killed["fit"] == whole["fit"]
    folders = [RunFolder.of(tmp_path / name, recipe.name, 0) for name in ("whole", "killed")]
    assert folders[0].weights_sum() == folders[1].weights_sum()
    open_gates = [gate.width for gate in gates_of(finished_model(folders[1]))]
    assert open_gates == whole["fit"]["records"][-1]


def test_every_iteration_starts_from_the_fit_of_the_one_before_and_the_training_from_the_last(tmp_path):
    first, second, final = (table_s2.name_of("vgg11", ending) for ending in ("search-1", "search-2", "ce"))
    results = {name: run(paper.recipe(name, "tiny"), tmp_path) for name in (first, second, final)}
    uniform = uniform_widths("vgg11", 0.0625)
    path = [list(uniform)]
    for before, name in ((first, second), (second, final)):
        law = PowerLaw(*(tuple(results[before]["fit"][key]) for key in ("alpha", "beta")))
        path.append(list(rebuild(law, "vgg11", 0.0625, 10)))
        assert results[name]["scaling"]["widths"] == path[-1]
        assert results[name]["scaling"]["history"] == path[:-1]
    assert "fit" not in results[final]
    folder = RunFolder.of(tmp_path, final, 0)
    model = finished_model(folder)
    assert export_network(folder)[0].model == Vgg11(tuple(path[-1]))  # others need no run of the search
    count = sum(parameter.numel() for parameter in model.parameters())
    assert count == count_parameters("vgg11", path[-1], 10) <= count_parameters("vgg11", uniform, 10)
    assert [result.state for result in screen(read_runs(tmp_path), paper.ITEMS.values())] == ["done"] * 3


def test_a_search_that_ends_early_records_it_and_stays_comparable(tmp_path):
    name = SEARCH.name
    recipe = replace(SEARCH, method=Pruning(warmup=0, every=1, filters=20, until=0.3), epochs=4)
    result = run(recipe, tmp_path)
    assert result["ended_after"] == len(RunFolder.of(tmp_path, name, 0).metrics()) == 1
    [actual] = screen(read_runs(tmp_path), ())
    assert actual.state == "done"


def test_rows_differ_in_their_method_alone_and_searches_have_no_opl():
    for scale in ("paper", "small", "tiny"):
        for row in table_s2.TABLE_S2.at(scale):
            if row.baseline:
                ours, base = paper.recipe(row.recipe, scale), paper.recipe(row.baseline, scale)
                assert replace(ours, name=base.name, method=CrossEntropy()) == base
    searches = [recipe for recipe in table_s2.recipes() if "search" in recipe.name]
    assert len(searches) == 2 * (15 + 2 + 2)
    assert all(isinstance(recipe.method, Pruning) and recipe.model.gates for recipe in searches)


def test_the_paper_scale_takes_the_published_widths_and_schedule():
    for row in table_s2.TABLE_S2.rows:
        recipe = paper.recipe(row.recipe, "paper")
        assert (recipe.model.source, recipe.model.ratio, recipe.after) == ("stored", 1.0, "")
        rates = [0.1 * recipe.schedule(epoch * 391, 391, 300) for epoch in (0, 98, 99, 198, 199, 248, 249, 299)]
        assert rates == pytest.approx([0.1, 0.1, 0.01, 0.01, 0.001, 0.001, 0.0001, 0.0001])
    search = paper.recipe(table_s2.name_of("resnet18", "search-1"), "paper")
    rates = [0.1 * search.schedule(epoch * 196, 196, 120) for epoch in (0, 8, 9, 18, 19, 29)]
    assert rates == pytest.approx([0.1, 0.1, 0.01, 0.01, 0.01 / 1.5, 0.01 / 1.5**2])
