"""`opl recipes`: everything that can be trained."""

from dataclasses import dataclass

from ..item import Item
from ..tables import ITEMS, recipes
from .flags import Flags


@dataclass(frozen=True)
class Recipes(Flags):
    """Every recipe: its table or figure, data set, cost and the paper's number."""

    def run(self) -> int:
        """Print the list."""
        for item in ITEMS.values():
            _print_item(item)
        print("in no table")
        rows = {row.recipe for item in ITEMS.values() for row in item.rows}
        for name in recipes():
            if name not in rows:
                print(f"  {name}")
        return 0


def _print_item(item: Item) -> None:
    print(f"{item.name}: {item.title}\n  data: {item.dataset}; a run: {item.cost or 'not measured'}")
    if item.home:
        print(f"  takes runs of {item.home} where it has them")
    for row in item.rows:
        paper = ", ".join(f"{value:.2f}" for value in row.paper.values())
        print(f"  {row.recipe:<46}{f'paper: {paper}' if paper else ''}".rstrip())
