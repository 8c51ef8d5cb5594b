"""Every table and figure of the paper, one file each.

Each file has an `ITEM` (rows, the paper's numbers, what is shown), which needs no torch, and `recipes()`, which imports
what it needs when it is called.
"""

import json
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, cast

from ...errors import OptionError, did_you_mean
from ..item import Item
from ..results.conformity import Recipes
from ..scales import Scale

if TYPE_CHECKING:
    from ..recipe import Recipe

MODULES = (
    "demo",
    "table_1",
    "table_2",
    "table_3",
    "table_3_beyond",
    "table_4",
    "table_5",
    "table_6",
    "table_7",
    "table_8",
    "table_s1",
    "table_s2",
    "table_s3",
    "figure_2",
    "figure_6",
    "figure_3",
    "figure_4",
    "figure_5",
    "figure_s3",
    "figure_s1",
    "figure_s2",
    "figure_s4",
    "figure_flow",
    "fast",
    "study_screen",
    "study",
    "study_noise",
    "study_few_shot",
    "study_domains",
)
"""The modules of this package, in the order in which their items are listed."""


class TableModule(Protocol):
    """The interface of every module in `MODULES`."""

    ITEM: Item

    def recipes(self) -> tuple["Recipe", ...]:
        """The recipes of all rows at all scales, of the runs they need (`after`), and of variants without a row."""
        ...


_TABLES = tuple(cast(TableModule, import_module(f"{__name__}.{name}")) for name in MODULES)
ITEMS: dict[str, Item] = {table.ITEM.name: table.ITEM for table in _TABLES}


def item(name: str) -> Item:
    """Look up a table or figure by name; for an unknown name the error suggests the nearest ones."""
    if name not in ITEMS:
        raise OptionError(did_you_mean("table or figure", name, ITEMS, "opl recipes"))
    return ITEMS[name]


def recipe_names() -> tuple[str, ...]:
    """The names of all recipes, as the items declare them."""
    return tuple(dict.fromkeys(name for item in ITEMS.values() for name in item.recipes))


def check_recipe_name(name: str) -> None:
    """Raise an error that suggests the nearest names if there is no such recipe; it needs no torch."""
    if name not in recipe_names():
        raise OptionError(did_you_mean("recipe", name, recipe_names(), "opl recipes WORD"))


def cost_of(recipe_name: str) -> str:
    """The cost of one run of a recipe, as stated by its table; empty if no table has the recipe."""
    return next((item.cost for item in ITEMS.values() if recipe_name in item.recipes), "")


def seconds_of(recipe_name: str, scale: str) -> float:
    """The seconds that one run of a recipe takes at a scale, as stated by its table; 0 if it states none."""
    return next((item.cost_at(scale) for item in ITEMS.values() if recipe_name in item.recipes), 0.0)


@cache
def _build(build: Callable[[], tuple["Recipe", ...]]) -> tuple["Recipe", ...]:
    """The recipes of a table, made once."""
    return build()


@cache
def recipes() -> dict[str, dict[str, "Recipe"]]:
    """Every recipe, by name and scale; items that share a recipe must agree on it."""
    known: dict[str, dict[str, Recipe]] = {}
    owners: dict[tuple[str, str], str] = {}
    for table in _TABLES:
        for made in _build(table.recipes):
            owner = owners.setdefault((made.name, made.scale), table.ITEM.name)
            if known.setdefault(made.name, {}).setdefault(made.scale, made) != made:
                raise OptionError(
                    f"{table.ITEM.name} and {owner} have different recipes {made.name!r} at the scale {made.scale!r}: "
                    "recipes of one name and scale must be equal, so give one of them another name."
                )
    return known


def recipe(name: str, scale: Scale) -> "Recipe":
    """Look up a recipe by name and scale; for an unknown one the error suggests the nearest names."""
    check_recipe_name(name)
    scales = _scales_of(name)
    if scale not in scales:
        raise OptionError(did_you_mean(f"scale of {name}", scale, scales))
    return scales[scale]


@cache
def _scales_of(name: str) -> dict[str, "Recipe"]:
    """The recipes of a name by their scales, for which only the tables that declare it are asked."""
    found: dict[str, Recipe] = {}
    for table in _TABLES:
        for made in _build(table.recipes) if name in table.ITEM.recipes else ():
            if made.name == name:
                found.setdefault(made.scale, made)
    return found


def settings_of(name: str, scale: str) -> dict[str, Any] | None:
    """The settings of a recipe as they are written to disk; None if there is no such recipe."""
    from ..settings import to_json

    found = _scales_of(name).get(scale)
    settings: dict[str, Any] | None = to_json(found) if found else None
    return settings


def complete(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings of a run with those added, as their defaults, that are newer than the run."""
    return {**_complete(json.dumps({**settings, "seed": 0})), "seed": settings.get("seed")}


@cache
def _complete(settings: str) -> dict[str, Any]:
    """The same for seed 0, from JSON and once, since the runs of a recipe differ in their seeds alone."""
    from ..training.build import complete_settings

    return complete_settings(json.loads(settings))


RECIPES = Recipes(settings_of, complete)

__all__ = [
    "ITEMS",
    "MODULES",
    "RECIPES",
    "check_recipe_name",
    "complete",
    "cost_of",
    "item",
    "recipe",
    "recipe_names",
    "recipes",
    "seconds_of",
    "settings_of",
]
