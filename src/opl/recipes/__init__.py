"""Every recipe by name and scale, and every table or figure that they make."""

from ..errors import OptionError, unknown
from ..item import Item
from ..recipe import Recipe, Scale
from . import demo, figure_2, figure_6, figures_of_table_1, table_1, table_8, table_s1

SHELVES = (demo, table_1, table_8, table_s1, figure_2, figure_6)
ITEMS: dict[str, Item] = {item.name: item for item in (*(shelf.ITEM for shelf in SHELVES), *figures_of_table_1.ITEMS)}
RECIPES: dict[str, dict[str, Recipe]] = {}
for _shelf in SHELVES:
    for _recipe in _shelf.RECIPES:
        RECIPES.setdefault(_recipe.name, {})[_recipe.scale] = _recipe


def recipe(name: str, scale: Scale) -> Recipe:
    """The recipe of that name at that scale; otherwise the nearest names."""
    if name not in RECIPES:
        raise OptionError(unknown("recipe", name, RECIPES))
    if scale not in RECIPES[name]:
        raise OptionError(unknown(f"scale of {name}", scale, RECIPES[name]))
    return RECIPES[name][scale]


def item(name: str) -> Item:
    """The table or figure of that name; otherwise the nearest names."""
    if name not in ITEMS:
        raise OptionError(unknown("table or figure", name, ITEMS))
    return ITEMS[name]


def cost_of(name: str) -> str:
    """What a run of a recipe costs, as its table says."""
    shelf = next((shelf for shelf in SHELVES if any(each.name == name for each in shelf.RECIPES)), None)
    return shelf.ITEM.cost if shelf else ""
