"""`opl recipes [ITEM] [TERM ...]`: everything that can be trained."""

from dataclasses import dataclass

from tyro.conf import Positional

from ...errors import OptionError, did_you_mean
from ..item import Item
from ..paper import ITEMS
from ..results.text import show_columns, show_lines
from ..scales import SCALES
from .flags import Flags


@dataclass(frozen=True)
class Recipes(Flags):
    """List every table and figure with its scales and the cost of one run, or the recipes of one item."""

    terms: Positional[tuple[str, ...]] = ()
    """A table or figure, such as table-3, or search terms for items and recipes, such as noise opl."""

    def run(self) -> int:
        """Print the list; it needs no torch."""
        if flag := next((term for term in self.terms if term.startswith("-")), ""):
            raise OptionError(f"unknown flag {flag[:200]!r}: remove it; opl recipes takes only search terms.")
        if self.terms and self.terms[0] in ITEMS:
            _show_item(ITEMS[self.terms[0]], self.terms[1:])
        elif self.terms:
            _show_matches(self.terms)
        else:
            show_columns([_line(item) for item in ITEMS.values()])
            show_lines(["", "Next: opl recipes ITEM lists its recipes, opl reproduce ITEM runs all of them,"])
            show_lines(["opl train RECIPE runs one."])
        return 0


def _line(item: Item) -> tuple[str, str, str]:
    """Return the name, the title, and the scales with the cost of one run."""
    times = {scale: cost.time for scale, cost in item.costs.items()}
    scales = [f"{scale} {times.get(scale, '')}".rstrip() for scale in SCALES if item.at(scale)]
    return item.name, item.title, ", ".join(scales)


def _show_item(item: Item, terms: tuple[str, ...]) -> None:
    """Print the recipes of an item: rows with labels, scales and the paper's numbers, then recipes without a row."""
    papers = {row.recipe: ", ".join(f"{value:.2f}" for value in row.paper.values()) for row in item.rows}
    rows = [
        (row.recipe, row.label, " ".join(row.scales), f"paper: {papers[row.recipe]}" if papers[row.recipe] else "")
        for row in item.rows
    ]
    rows += [(name, "in no row", "", "") for name in item.others]
    matches = [row for row in rows if _matches(terms, " ".join(row))]
    if not matches:
        raise OptionError(did_you_mean(f"recipe of {item.name}", " ".join(terms), item.recipes))
    home = [f"shares runs with {item.home}"] if item.home else []
    cost = f"data: {item.dataset}; cost per run: {item.cost or 'not measured'}; {item.seeds} seeds"
    show_lines([f"{item.name}: {item.title}", cost, *home, ""])
    show_columns(matches)
    show_lines(["", f"opl reproduce {item.name} --dry-run shows what is done and how long the rest takes."])


def _show_matches(terms: tuple[str, ...]) -> None:
    """Print the items that match all terms, then the recipes that do."""
    items = [item for item in ITEMS.values() if _matches(terms, f"{item.name} {item.title} {item.dataset}")]
    labels: dict[str, tuple[str, str]] = {}
    for item in ITEMS.values():
        for row in item.rows:
            labels.setdefault(row.recipe, (item.name, row.label))
        labels |= dict.fromkeys(item.others, (item.name, "in no row"))
    recipes = [(name, *about) for name, about in labels.items() if _matches(terms, " ".join((name, *about)))]
    if not items and not recipes:
        names = [*ITEMS, *labels]
        raise OptionError(did_you_mean("table, figure or recipe", " ".join(terms), names, "opl recipes"))
    if items:
        show_columns([_line(item) for item in items])
    if items and recipes:
        print()
    if recipes:
        show_columns(recipes)


def _matches(terms: tuple[str, ...], text: str) -> bool:
    """Return whether a text has all terms, in any case, with or without hyphens.

    Example:
        >>> _matches(("resnet56", "opl"), "CIFAR-100, ResNet-56 CE+OPL")
        True
    """
    return all(_plain(term) in _plain(text) for term in terms)


def _plain(text: str) -> str:
    return text.lower().replace("-", "").replace("_", "")
