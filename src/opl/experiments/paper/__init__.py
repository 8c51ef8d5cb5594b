"""Every table and figure of the paper: one module per table, with the figures drawn from its runs.

A module has `ITEMS` (rows, the paper's numbers, what is shown), which need no torch, and `recipes()`, which imports
what it needs when it is called. `OWNERS` and `PREFIXES` say which module owns an item or a recipe, so that looking up
one recipe imports no other table.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Protocol, cast

from ...errors import OptionError, did_you_mean
from ..item import Item
from ..scales import SCALES, Scale

if TYPE_CHECKING:
    from ..recipe import Recipe

OWNERS = {
    "demo": "demo",
    "table-1": "table_1",
    "table-2": "table_2",
    "table-3": "table_3",
    "table-3-beyond": "table_3",
    "table-4": "table_4",
    "table-5": "table_5",
    "table-6": "table_6",
    "table-7": "table_7",
    "table-8": "table_8",
    "table-s1": "table_s1",
    "table-s2": "table_s2",
    "table-s3": "table_6",
    "figure-2": "table_s1",
    "figure-6": "table_8",
    "figure-3": "table_1",
    "figure-4": "table_1",
    "figure-5": "table_2",
    "figure-s3": "table_1",
    "figure-s1": "table_6",
    "figure-s2": "table_2",
    "figure-s4": "table_2",
    "figure-flow": "table_8",
    "fast": "fast",
    "board": "board",
    "open-questions": "open_questions",
    "open-questions-classes": "open_questions",
    "study-screen": "study",
    "study": "study",
    "study-noise": "table_3",
    "study-few-shot": "table_6",
    "study-domains": "table_5",
    "study-pretrained": "table_5",
    "study-few-images": "table_5",
}
"""The module of each item, in the order in which items are listed."""
DIAGRAMS = ("figure-1",)
"""Figures of the paper that are drawings of the method, without numbers to reproduce."""
PREFIXES = {
    "demo": ("digits-",),
    "table_1": ("cifar100-resnet56-", "cifar100-resnet110-", "cifar100-wide-"),
    "table_2": ("imagenet-", "photos-", "pacs-jpegs-", "cifar100-jpegs-", "folder-", "hub-"),
    "table_3": (
        "cifar10-noisy-",
        "cifar100-noisy-",
        "mnist-noisy-",
        "study-cifar10-noisy-",
        "study-cifar100-noisy-",
        "study-mnist-noisy-",
    ),
    "table_4": ("cifar10-robust-", "cifar100-robust-"),
    "table_5": ("pacs-art-", "pacs-cartoon-", "pacs-sketch-", "pacs-photo-", "pacs-few-", "study-pacs-", "domains-"),
    "table_6": (
        "cifar-fs-",
        "mini-imagenet-",
        "tiered-imagenet-",
        "study-cifar-fs-",
        "study-mini-imagenet-",
        "study-tiered-imagenet-",
    ),
    "table_7": ("meta-",),
    "table_8": ("cifar100-search-",),
    "table_s1": ("mnist-ce", "mnist-opl", "mnist-2d-"),
    "table_s2": ("cifar100-neuralscale-",),
    "fast": ("cifar100-fast", "cifar10-fast"),
    "board": ("board-",),
    "open_questions": ("cifar100-lt-", "cifar10-views-"),
    "study": ("screen-resnet8-", "study-ce", "study-smooth", "study-opl", "study-ramp-"),
}
"""The beginnings of the names of a module's recipes; no name has two of these beginnings."""


class TableModule(Protocol):
    """The interface of every module that `OWNERS` names."""

    ITEMS: tuple[Item, ...]

    def recipes(self) -> tuple["Recipe", ...]:
        """The recipes of all rows at all scales, of the runs they need (`after`), and of variants without a row."""
        ...


class _Items(Mapping[str, Item]):
    """All items by name; looking up one of them imports its module alone."""

    def __getitem__(self, name: str) -> Item:
        items = {item.name: item for item in _module(OWNERS[name]).ITEMS}
        return items[name]

    def __iter__(self) -> Iterator[str]:
        return iter(OWNERS)

    def __len__(self) -> int:
        return len(OWNERS)


ITEMS: Mapping[str, Item] = _Items()


def _module(name: str) -> TableModule:
    return cast(TableModule, import_module(f"{__name__}.{name}"))


def _owner(recipe_name: str) -> str:
    """The module that declares a recipe, by its name; empty if there is none."""
    return next((module for module, prefixes in PREFIXES.items() if recipe_name.startswith(prefixes)), "")


def item(name: str) -> Item:
    """Look up a table or figure by name; for an unknown name the error suggests the nearest ones."""
    if name in DIAGRAMS:
        raise OptionError(
            f"{name} is a diagram of the method, with no numbers to reproduce: read docs/loss.md instead."
        )
    if name not in OWNERS:
        raise OptionError(did_you_mean("table or figure", name, ITEMS, "opl recipes"))
    return ITEMS[name]


def items_of(recipe_names: Iterable[str]) -> dict[str, Item]:
    """The items of the modules that own some recipes, in the order in which items are listed."""
    modules = {_owner(name) for name in recipe_names}
    return {name: ITEMS[name] for name, module in OWNERS.items() if module in modules}


def recipe_names() -> tuple[str, ...]:
    """The names of all recipes, as the items declare them."""
    return tuple(dict.fromkeys(name for item in ITEMS.values() for name in item.recipes))


def check_recipe_name(name: str) -> None:
    """Raise an error that suggests the nearest names if there is no such recipe; it needs no torch."""
    if not _items_with(name):
        raise OptionError(did_you_mean("recipe", name, recipe_names(), "opl recipes WORD"))


def cost_of(recipe_name: str) -> str:
    """The cost of one run of a recipe, in words; empty if it was not measured."""
    return next((item.cost for item in _items_with(recipe_name)), "")


def seconds_of(recipe_name: str, scale: str) -> float:
    """The seconds that one run of a recipe takes at a scale; 0 if they were not measured."""
    return next((item.cost_at(scale) for item in _items_with(recipe_name)), 0.0)


def _items_with(recipe_name: str) -> list[Item]:
    return [item for item in items_of([recipe_name]).values() if recipe_name in item.recipes]


@cache
def _recipes_of(module: str) -> dict[str, dict[str, "Recipe"]]:
    """The recipes of a module, by name and scale."""
    recipes: dict[str, dict[str, Recipe]] = {}
    for recipe in _module(module).recipes():
        recipes.setdefault(recipe.name, {})[recipe.scale] = recipe
    return recipes


def recipes() -> dict[str, dict[str, "Recipe"]]:
    """Every recipe, by name and scale."""
    return {name: scales for module in dict.fromkeys(OWNERS.values()) for name, scales in _recipes_of(module).items()}


def recipe(name: str, scale: Scale | None = None) -> "Recipe":
    """Look up a recipe by name and scale, by default the largest scale that it has.

    For an unknown name the error suggests the nearest ones.
    """
    check_recipe_name(name)
    scales = _recipes_of(_owner(name))[name]
    known = [size for size in SCALES if size in scales]
    if scale is not None and scale not in scales:
        raise OptionError(f"{name} has no {scale} scale: use --scale {' or '.join(known)}.")
    return scales[scale or known[0]]


def find_recipe(name: str, scale: str) -> "Recipe | None":
    """The recipe of a name and scale; None if there is none."""
    owner = _owner(name) if scale in SCALES else ""
    return _recipes_of(owner).get(name, {}).get(scale) if owner else None
