"""Tables and figures, one file each: an item that needs no torch, and recipes for all that it names."""

import pkgutil
import subprocess
import sys
from dataclasses import replace
from importlib import import_module

import pytest

from opl.errors import OptionError
from opl.experiments import paper
from opl.experiments.paper import demo, table_s1
from opl.experiments.scales import SCALES


def module(name):
    return import_module(f"opl.experiments.paper.{name}")


def test_every_file_is_registered_once_and_holds_the_item_of_its_name():
    files = [each.name for each in pkgutil.iter_modules(paper.__path__)]
    assert sorted(paper.MODULES) == sorted(files)
    assert list(paper.ITEMS) == [name.replace("_", "-") for name in paper.MODULES]
    assert [module(name).ITEM for name in paper.MODULES] == list(paper.ITEMS.values())


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", paper.MODULES)
def test_an_item_makes_the_recipes_of_all_that_it_names(name, scale):
    item, made = module(name).ITEM, {recipe.name: recipe for recipe in module(name).recipes() if recipe.scale == scale}
    rows, averages = item.at(scale), item.averages_at(scale)
    lines = [row.recipe for row in (*rows, *(average.row for average in averages))]
    assert len(lines) == len(set(lines))
    named = [row.recipe for row in rows] + [row.baseline for row in rows if row.baseline]
    named += [part for average in averages for part in average.of]
    named += [recipe.after for recipe in made.values() if recipe.after]
    assert set(named) <= set(made)
    for average in averages:
        assert average.row.baseline in {"", *(other.row.recipe for other in averages)}


def test_every_row_is_run_somewhere_and_shares_the_folder_of_a_real_item():
    for item in paper.ITEMS.values():
        assert item.home in {"", *paper.ITEMS}
        for row in (*item.rows, *(average.row for average in item.averages)):
            assert row.scales
            assert set(row.scales) <= set(SCALES)


def test_a_recipe_is_known_by_its_name_and_scale():
    for name, scales in paper.recipes().items():
        for scale, recipe in scales.items():
            assert (recipe.name, recipe.scale) == (name, scale)
            assert paper.recipe(name, scale) is recipe
    with pytest.raises(OptionError, match="recipe 'digits-op' does not exist: did you mean 'digits-opl'"):
        paper.recipe("digits-op", "tiny")
    with pytest.raises(OptionError, match="scale of cifar10-robust-trades 'small' does not exist"):
        paper.recipe("cifar10-robust-trades", "small")
    with pytest.raises(OptionError, match="table or figure 'table-33' does not exist: did you mean 'table-3'"):
        paper.item("table-33")


def test_items_that_share_a_recipe_must_agree_on_it(monkeypatch):
    tiny = next(recipe for recipe in demo.recipes() if recipe.scale == "tiny")
    monkeypatch.setattr(table_s1, "recipes", lambda: (tiny,))
    assert paper.recipes.__wrapped__()["digits-ce"]["tiny"] == tiny
    monkeypatch.setattr(table_s1, "recipes", lambda: (replace(tiny, epochs=7),))
    with pytest.raises(OptionError, match=r"table-s1 and demo .*'digits-ce' .*'tiny'.* must be equal"):
        paper.recipes.__wrapped__()


def test_items_need_no_torch_and_their_cost_neither():
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "from opl.experiments.paper import ITEMS, MODULES, cost_of, item\n"
        "import opl.experiments.item\n"
        "print(len(ITEMS), cost_of('digits-opl'), item('figure-s1').figure)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{len(paper.MODULES)} 10 s on 1 core lda\n"
