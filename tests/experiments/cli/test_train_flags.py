"""The flags of the command that trains."""

from opl.experiments import paper
from opl.experiments.cli.flags import change_settings
from opl.experiments.recipe import Recipe
from opl.experiments.settings import to_json


def parts(recipe):
    return tuple(type(part) for part in (recipe.data, recipe.model, recipe.method, recipe.noise))


def test_flags_of_train_give_the_recipe_back_as_it_was_and_change_what_they_name():
    known = [recipe for scales in paper.recipes().values() for recipe in scales.values()]
    for recipe in {parts(recipe): recipe for recipe in known}.values():
        changed = change_settings(recipe, ["--seed", "3"])
        assert type(changed) is Recipe
        assert to_json(changed) == {**to_json(recipe), "seed": 3}
    noisy = change_settings(paper.recipe("cifar100-noisy-class-tl", "tiny"), ["--noise.rate", "0.5", "--data.val", "7"])
    assert (noisy.noise.rate, noisy.data.val) == (0.5, 7)
