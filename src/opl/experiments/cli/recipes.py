"""`opl recipes [ITEM] [WORDS]`: everything that can be trained."""

from dataclasses import dataclass

from tyro.conf import Positional

from ...errors import OptionError, did_you_mean
from ..item import Item
from ..paper import ITEMS
from ..results.text import show_columns, show_lines
from ..scales import SCALES
from .flags import Flags

UNITS = (("h", 3600.0), ("min", 60.0), ("s", 1.0))


@dataclass(frozen=True)
class Recipes(Flags):
    """Every table and figure, with its scales and the cost of one run; after the name of one, its recipes."""

    words: Positional[tuple[str, ...]] = ()
    """A table or figure, such as table-3, or words that items and recipes must have, such as noise opl."""

    def run(self) -> int:
        """Print the list; it needs no torch."""
        if self.words and self.words[0] in ITEMS:
            _show_item(ITEMS[self.words[0]], self.words[1:])
        elif self.words:
            _show_matches(self.words)
        else:
            show_columns([_line(item) for item in ITEMS.values()])
            show_lines(["", "opl recipes ITEM lists its recipes, opl reproduce ITEM runs them, opl train RECIPE one."])
        return 0


def _line(item: Item) -> tuple[str, str, str]:
    """Name, title, scales with the cost of one run."""
    scales = [scale for scale in SCALES if item.at(scale)]
    costs = {scale: item.cost_at(scale) for scale in scales}
    return item.name, item.title, ", ".join(f"{scale} {_short(costs[scale])}".rstrip() for scale in scales)


def _short(seconds: float) -> str:
    """The largest unit that fits."""
    unit, size = next(((unit, size) for unit, size in UNITS if seconds >= 2 * size), UNITS[-1])
    return f"{seconds / size:g} {unit}" if seconds else ""


def _show_item(item: Item, words: tuple[str, ...]) -> None:
    """Its recipes: those of rows with their labels, scales and the paper's numbers, then the others."""
    papers = {row.recipe: ", ".join(f"{value:.2f}" for value in row.paper.values()) for row in item.rows}
    rows = [
        (row.recipe, row.label, " ".join(row.scales), f"paper: {papers[row.recipe]}" if papers[row.recipe] else "")
        for row in item.rows
    ]
    rows += [(name, "in no row", "", "") for name in item.others]
    found = [row for row in rows if _has(words, " ".join(row))]
    if not found:
        raise OptionError(did_you_mean(f"recipe of {item.name}", " ".join(words), item.recipes))
    home = [f"takes runs of {item.home} where it has them"] if item.home else []
    cost = f"data: {item.dataset}; a run: {item.cost or 'not measured'}; {item.seeds} seeds"
    show_lines([f"{item.name}: {item.title}", cost, *home, ""])
    show_columns(found)
    show_lines(["", f"opl reproduce {item.name} --dry-run says what is done and how long the rest takes."])


def _show_matches(words: tuple[str, ...]) -> None:
    """The items that have all words, then the recipes that do."""
    items = [item for item in ITEMS.values() if _has(words, f"{item.name} {item.title} {item.dataset}")]
    labels = {name: (item.name, "in no row") for item in ITEMS.values() for name in item.others}
    labels = {row.recipe: (item.name, row.label) for item in reversed(ITEMS.values()) for row in item.rows} | labels
    recipes = [(name, *about) for name, about in labels.items() if _has(words, " ".join((name, *about)))]
    if not items and not recipes:
        names = [*ITEMS, *labels]
        raise OptionError(did_you_mean("table, figure or recipe", " ".join(words), names, "opl recipes"))
    if items:
        show_columns([_line(item) for item in items])
    if items and recipes:
        print()
    if recipes:
        show_columns(recipes)


def _has(words: tuple[str, ...], text: str) -> bool:
    """Whether a text has all words, in any case, with or without hyphens.

    Example:
        >>> _has(("resnet56", "opl"), "CIFAR-100, ResNet-56 CE+OPL")
        True
    """
    return all(_plain(word) in _plain(text) for word in words)


def _plain(text: str) -> str:
    return text.lower().replace("-", "").replace("_", "")
