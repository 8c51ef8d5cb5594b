"""Every recipe by name and scale; the tables and figures that they make are in `opl.experiments.tables`."""

from ...errors import OptionError, did_you_mean
from ..recipe import Recipe, Scale
from . import demo, figure_2, figure_6, table_1, table_3, table_4, table_5, table_6, table_8, table_s1

RECIPES: dict[str, dict[str, Recipe]] = {}
for _shelf in (demo, table_1, table_3, table_4, table_5, table_6, table_8, table_s1, figure_2, figure_6):
    for _recipe in _shelf.RECIPES:
        RECIPES.setdefault(_recipe.name, {})[_recipe.scale] = _recipe


def recipe(name: str, scale: Scale) -> Recipe:
    """The recipe of that name at that scale; otherwise the nearest names."""
    if name not in RECIPES:
        raise OptionError(did_you_mean("recipe", name, RECIPES))
    if scale not in RECIPES[name]:
        raise OptionError(did_you_mean(f"scale of {name}", scale, RECIPES[name]))
    return RECIPES[name][scale]
