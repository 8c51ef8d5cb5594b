"""The registry: each item and recipe has one module, which is found without importing the others."""

import json
import pkgutil
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from importlib import import_module

import pytest

from opl.errors import OptionError
from opl.experiments import paper
from opl.experiments.scales import SCALES

MODULES = {name: import_module(f"opl.experiments.paper.{name}") for name in dict.fromkeys(paper.OWNERS.values())}
HELPERS = {"variant"}


def run_without(code: str, *modules: str) -> str:
    """Run code in a process where some modules cannot be imported."""
    block = "".join(f"sys.modules[{name!r}] = None\n" for name in modules)
    done = subprocess.run([sys.executable, "-c", f"import sys\n{block}{code}"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_module_and_every_item_is_registered_once():
    files = {module.name for module in pkgutil.iter_modules(paper.__path__)}
    assert files - HELPERS == MODULES.keys()
    declared = {item.name: name for name, module in MODULES.items() for item in module.ITEMS}
    assert declared == paper.OWNERS
    assert sum(len(module.ITEMS) for module in MODULES.values()) == len(paper.OWNERS)
    assert {name: item.name for name, item in paper.ITEMS.items()} == {name: name for name in paper.OWNERS}


def test_each_recipe_is_declared_by_one_module_which_its_name_leads_to():
    for name, module in MODULES.items():
        recipes = module.recipes()
        repeated = [key for key, count in Counter((made.name, made.scale) for made in recipes).items() if count > 1]
        assert repeated == [], name
        for recipe in {made.name for made in recipes}:
            owners = [owner for owner, starts in paper.PREFIXES.items() for start in starts if recipe.startswith(start)]
            assert owners == [name], recipe


def test_every_prefix_is_used():
    names = paper.recipe_names()
    starts = [start for starts in paper.PREFIXES.values() for start in starts]
    assert [start for start in starts if not any(name.startswith(start) for name in names)] == []


def test_the_items_of_a_module_declare_its_recipes_and_no_others_but_those_of_the_item_that_holds_their_runs():
    for name, module in MODULES.items():
        declared = {recipe for item in module.ITEMS for recipe in item.recipes}
        shared = {recipe for item in module.ITEMS if item.home for recipe in paper.ITEMS[item.home].recipes}
        made = {recipe.name for recipe in module.recipes()}
        assert made <= declared <= made | shared, name


def test_the_items_of_a_module_name_only_recipes_that_exist_at_their_scale():
    known = paper.recipes()
    for item in paper.ITEMS.values():
        for scale in SCALES:
            rows, averages = item.at(scale), item.averages_at(scale)
            labels = [row.recipe for row in (*rows, *(average.row for average in averages))]
            assert len(labels) == len(set(labels)), (item.name, scale)
            named = [*(row.recipe for row in rows), *(row.baseline for row in rows if row.baseline)]
            named += [part for average in averages for part in average.of]
            named += [known[row.recipe][scale].after for row in rows if known[row.recipe][scale].after]
            assert [name for name in named if scale not in known[name]] == [], (item.name, scale)
            identifiers = {"", *(average.row.recipe for average in averages)}
            assert {average.row.baseline for average in averages} <= identifiers


def test_every_row_has_a_scale_and_its_item_shares_the_folder_of_a_real_item():
    for item in paper.ITEMS.values():
        assert item.home in {"", *paper.ITEMS}
        for row in (*item.rows, *(average.row for average in item.averages)):
            assert row.scales, row
            assert set(row.scales) <= set(SCALES), row


def test_a_baseline_differs_in_the_method_alone():
    for item in paper.ITEMS.values():
        for row in (row for row in item.rows if row.baseline):
            for scale in row.scales:
                ours, theirs = paper.recipe(row.recipe, scale), paper.recipe(row.baseline, scale)
                same = replace(ours, name="x", method=theirs.method, after=theirs.after, members=theirs.members)
                assert same == replace(theirs, name="x"), row  # a student of OPL has a teacher of OPL


def test_few_shot_tables_show_what_they_measure():
    for name in ("table-6", "table-7", "table-s3"):
        item = paper.item(name)
        assert set(item.metrics) == {
            measured.replace("-", "/", 1) for measure in item.measures for measured in measure.names
        }
        assert all(set(row.paper) <= set(item.metrics) for row in item.rows)


def test_a_recipe_is_found_by_its_name_and_scale():
    for name, scales in paper.recipes().items():
        for scale, recipe in scales.items():
            assert (recipe.name, recipe.scale) == (name, scale)
            assert paper.recipe(name, scale) is paper.find_recipe(name, scale) is recipe
    assert paper.find_recipe("digits-op", "tiny") is paper.find_recipe("digits-opl", "custom") is None
    with pytest.raises(OptionError, match="recipe 'digits-op' does not exist: did you mean 'digits-opl'"):
        paper.recipe("digits-op", "tiny")
    with pytest.raises(OptionError, match="cifar10-robust-trades has no small scale: use --scale paper or tiny"):
        paper.recipe("cifar10-robust-trades", "small")
    assert paper.recipe("mnist-opl").scale == "paper"
    assert paper.recipe("pacs-art-lite0-erm-long").scale == "small"
    with pytest.raises(OptionError, match="table or figure 'table-33' does not exist: did you mean 'table-3'"):
        paper.item("table-33")


def test_finding_a_recipe_imports_no_other_table():
    code = (
        "from opl.experiments import paper\n"
        "paper.recipe('digits-opl', 'tiny'), paper.cost_of('digits-opl'), paper.item('demo')\n"
        "import json; print(json.dumps([name for name in sys.modules if name.startswith(paper.__name__ + '.')]))"
    )
    loaded = {name.rpartition(".")[2] for name in json.loads(run_without(code))}
    assert loaded == {"demo", "variant"}


def test_items_and_their_costs_need_no_torch():
    code = (
        "from opl.experiments.paper import ITEMS, cost_of, recipe_names\n"
        "print(len([item.title for item in ITEMS.values()]), len(recipe_names()), cost_of('digits-opl'), sep='|')"
    )
    names = len(paper.recipe_names())
    expected = f"{len(paper.OWNERS)}|{names}|paper: up to 10 s on 1 core; small: up to 10 s on 1 core\n"
    assert run_without(code, "torch") == expected


def test_costs_are_those_that_were_measured():
    for name, seconds in {
        "demo": (10, 10, 0),
        "table-1": (45 * 3600, 1320, 0),
        "table-2": (0, 26 * 60, 0),
        "table-4": (0, 1080, 0),
        "table-6": (44 * 3600, 23 * 60, 0),
        "table-s1": (240, 0, 0),
        "study": (0, 480, 0),
        "fast": (1320, 480, 0),
    }.items():
        assert tuple(map(paper.item(name).cost_at, SCALES)) == seconds, name
    assert paper.seconds_of("digits-opl", "small") == 10
    assert paper.item("fast").cost == "small: up to 8 min on 2 cores; paper: up to 22 min on 2 cores"


def test_every_cost_is_of_a_scale_at_which_the_item_is_run():
    for item in paper.ITEMS.values():
        assert all(item.at(scale) for scale in item.costs), item.name
        assert all(cost.seconds > 0 and cost.cores > 0 for cost in item.costs.values()), item.name


def test_figure_1_is_said_to_be_a_diagram():
    with pytest.raises(OptionError, match="figure-1 is a diagram of the method, with no numbers to reproduce"):
        paper.item("figure-1")
