"""Every recipe survives JSON."""

import json
from dataclasses import replace

import pytest

from opl.errors import OptionError
from opl.experiments import paper
from opl.experiments.settings import to_json
from opl.experiments.training.build import parse_recipe


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
