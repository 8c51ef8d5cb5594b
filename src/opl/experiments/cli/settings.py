"""The settings of a recipe as flags, and recipes from files."""

import dataclasses
import json
import typing
from pathlib import Path
from typing import Any

import tyro

from ...errors import OptionError
from ..files import read_limited
from ..recipe import Recipe
from ..scales import SCALES
from ..settings import FREE, describe_changes, to_json
from .flags import read_flags


def read_recipe(file: Path) -> Recipe:
    """Read a recipe from a file: `winner.json` of a search, or `recipe.json` of a run."""
    from ..training.build import parse_recipe

    try:
        content = json.loads(read_limited(file))
        return parse_recipe(content["recipe"] if isinstance(content.get("recipe"), dict) else content)
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise OptionError(f"{file} holds no recipe ({error}): give winner.json of a search, or recipe.json.") from error


def change_settings(default: Recipe, words: list[str]) -> Recipe:
    """A recipe with the settings that the words change, such as `--method.weight 0.3`."""
    narrow = _narrow(default)
    hidden = tyro.conf.configure(tyro.conf.AvoidSubcommands, tyro.conf.SuppressFixed)
    changed = read_flags(
        hidden(narrow),
        words,
        default=narrow(**_values(default)),
        prog=f"opl train {default.name}",
        description=f"Also: --scale {{{','.join(SCALES)}}}, --out DIR, --dry-run. The settings of the recipe:",
    )
    return _declare_changes(Recipe(**_values(changed)), default)


def _declare_changes(chosen: Recipe, default: Recipe) -> Recipe:
    """The same recipe, which says so if it is no longer that of its name: its runs are in no table."""
    changes = describe_changes(to_json(chosen), to_json(default), FREE)
    if not changes:
        return chosen
    return dataclasses.replace(chosen, scale="custom", changes=(*default.changes, *changes))


def _narrow(default: Recipe) -> type[Recipe]:
    """`Recipe` with the classes of these very settings in place of its protocols, which say nothing of flags.

    It does not check itself: tyro would draw a box around the sentence of an error, which `Recipe` raises afterwards.
    """
    hints = typing.get_type_hints(Recipe)
    fields = [
        (name, type(value) if dataclasses.is_dataclass(value) else hints[name], dataclasses.field(default=value))
        for name, value in _values(default).items()
    ]
    unchecked = {"__post_init__": lambda settings: None}
    return dataclasses.make_dataclass(Recipe.__name__, fields, bases=(Recipe,), frozen=True, namespace=unchecked)


def _values(settings: Recipe) -> dict[str, Any]:
    return {field.name: getattr(settings, field.name) for field in dataclasses.fields(settings)}
