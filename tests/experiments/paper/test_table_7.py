"""Table 7: the paper's numbers, families that are like for like, and tiny runs of all of them."""

from dataclasses import replace

import pytest
import torch

from opl.experiments import paper
from opl.experiments.data import MetaSource
from opl.experiments.methods import CrossEntropy, CrossEntropyOPL
from opl.experiments.models.sur_resnet import is_adapter
from opl.experiments.paper import table_7
from opl.experiments.run_folder import RunFolder
from opl.experiments.scales import SCALES
from opl.experiments.training.run import run

ITEM, TWINS = paper.item("table-7"), ("", "-opl")


def test_the_papers_numbers_have_the_papers_averages():
    for row in (*ITEM.rows, *ITEM.quoted):
        if row.paper:
            *each, average = row.paper.values()
            assert len(each) == 12
            assert sum(each) / 12 == pytest.approx(average, abs=0.06)
    assert {row.label for row in ITEM.rows if row.paper} == {"SUR-pnf", "SUR-pnf+OPL"}


@pytest.mark.parametrize("scale", SCALES)
def test_what_is_shown_is_what_is_measured(scale):
    shown = ITEM.for_scale(scale)
    (measure,) = [each for each in ITEM.measures if scale in each.scales]
    assert {name.replace("/", "-", 1) for name in shown.metrics} == set(measure.names)
    assert len(measure.names) == len(measure.settings)
    assert set(shown.main) == set(shown.metrics) - {"selection/base"}
    assert int(measure.argv[measure.argv.index("--episodes") + 1]) >= (20 if scale == "tiny" else 200)


@pytest.mark.parametrize("scale", SCALES)
def test_a_family_and_its_twin_with_opl_differ_in_the_method_of_every_run(scale):
    for key in ("base", "pnf", "sur"):
        families = [[f"meta-{key}{ending}", *paper.recipe(f"meta-{key}{ending}", scale).members] for ending in TWINS]
        for names in zip(*families, strict=True):
            mine, theirs = (paper.recipe(name, scale) for name in names)
            assert (mine.method, theirs.method) == (CrossEntropy(), CrossEntropyOPL())
            assert mine.after == theirs.after.replace("-opl", "")
            alike = replace(theirs, name=mine.name, after=mine.after, members=mine.members, method=CrossEntropy())
            assert mine == alike
    assert len({*paper.recipe("meta-pnf", scale).members}) == len(table_7.OF_SCALE[scale]) - 2


def test_paper_recipes_are_those_of_sur():
    base, birds = (paper.recipe(name, "paper") for name in ("meta-base", "meta-pnf-cu_birds"))
    assert base.data == MetaSource(source="ilsvrc_2012", size=84)
    assert (base.batch_size, base.schedule.cycles) == (64, 10)
    assert (base.optimizer.lr, base.optimizer.weight_decay) == (0.03, 7e-4)
    assert (birds.after, birds.inherit, birds.new_head, birds.model.adapters) == ("meta-base", True, True, True)
    assert (birds.batch_size, birds.schedule.cycles, birds.epochs) == (16, 27, 78)  # 40,000 steps, again every 1,500
    for name in (*paper.recipe("meta-pnf", "paper").members, "meta-pnf"):
        recipe = paper.recipe(name, "paper")
        how = table_7.SOURCES[recipe.data.source]
        steps = recipe.epochs * -(-how.images // recipe.batch_size)
        assert steps == pytest.approx(how.adapters.steps, rel=0.05)


def test_a_tiny_family_trains_adapters_on_one_base(tmp_path, one_thread):
    for name in ("meta-base", "meta-pnf", "meta-base-opl", "meta-pnf-opl"):
        result = run(paper.recipe(name, "tiny"), tmp_path)
        assert 0 <= result["test/top1"] <= 100
    folders = {name: RunFolder.of(tmp_path, name, 0) for name in ("meta-base", "meta-pnf", "meta-pnf-opl")}
    base, member, other = (folders[name].weights() for name in folders)
    moving = ("running_mean", "running_var", "num_batches_tracked")
    frozen = [name for name in base if not name.startswith("fc.") and not name.endswith(moving)]
    assert all(torch.equal(base[name], member[name]) for name in frozen)
    assert {name for name in member if name not in base} == {name for name in member if is_adapter(name)}
    scales = [name for name in member if name.endswith("film_scale")]
    assert all((member[name] != 1).any() for name in scales)
    assert any(not torch.equal(member[name], other[name]) for name in scales)
    record = folders["meta-pnf-opl"].metrics()[-1]
    assert {"train/entropy", "train/projection"} <= record.keys()


def test_the_margins_of_the_paper_stand_beside_its_numbers_except_the_average():
    for row in ITEM.rows:
        assert list(row.paper_margins) == list(row.paper)[:12]
    row = next(row for row in ITEM.rows if row.label == "SUR-pnf+OPL")
    first = next(iter(row.paper))
    assert (row.paper[first], row.paper_margins[first]) == (56.5, 1.1)
