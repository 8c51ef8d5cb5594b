"""Every recipe survives JSON."""

import json

from opl.experiments import tables
from opl.experiments.serialization import to_json
from opl.experiments.training.build import parse_recipe


def test_every_recipe_survives_json_at_every_scale():
    for scales in tables.recipes().values():
        for recipe in scales.values():
            assert parse_recipe(json.loads(json.dumps(to_json(recipe)))) == recipe
