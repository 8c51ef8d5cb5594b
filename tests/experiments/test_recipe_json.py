"""Every recipe survives JSON."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from opl.errors import OptionError
from opl.experiments import paper
from opl.experiments.settings import to_json
from opl.experiments.training.build import parse_recipe

RESULTS = Path(__file__).parents[2] / "results"


def test_every_recipe_survives_json_at_every_scale():
    for scales in paper.recipes().values():
        for recipe in scales.values():
            assert parse_recipe(json.loads(json.dumps(to_json(recipe)))) == recipe


@pytest.mark.parametrize("name", ["../../x", "/x", "a/b", "a\\b", "..", "", "a\nb", " a", "x" * 201])
def test_a_recipe_whose_name_leads_out_of_its_folder_is_refused(name):
    recipe = paper.recipe("digits-opl", "tiny")
    with pytest.raises(OptionError, match="because it names a folder"):
        replace(recipe, name=name)
    if name:
        with pytest.raises(OptionError, match="because it names a folder"):
            replace(recipe, after=name)


def test_removed_settings_are_dropped_at_their_former_value_and_refused_at_others():
    recipe = paper.recipe("digits-opl", "small")
    stored = to_json(recipe)
    assert parse_recipe({**stored, "data": {**stored["data"], "test_fraction": 0.5}}) == recipe
    with pytest.raises(OptionError, match="setting of Digits 'test_fraction' does not exist"):
        parse_recipe({**stored, "data": {**stored["data"], "test_fraction": 0.9}})


def test_the_recipes_of_all_stored_records_can_be_read():
    records = [json.loads(file.read_text()) for file in sorted(RESULTS.rglob("*.json"))]
    stored = [settings for record in records for settings in stored_recipes(record)]
    assert len(stored) >= 380
    for settings in stored:
        assert parse_recipe(settings).name == settings["name"]


def stored_recipes(value):
    if isinstance(value, dict) and value.get("kind") == "Recipe":
        return [value]
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [settings for entry in inside for settings in stored_recipes(entry)]
