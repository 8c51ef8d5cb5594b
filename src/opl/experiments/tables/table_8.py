"""Table 8: the search for the weight and gamma, by validation. Cost of one seed: as in table 1, RESULTS.md."""

from dataclasses import replace
from typing import TYPE_CHECKING

from ..item import Item, Row
from . import table_1

if TYPE_CHECKING:
    from ..recipe import Recipe

OPL = table_1.name_of("opl")
GAMMAS = (2.0, 1.0, 0.5)
PAPER = {  # weight -> accuracy for each of GAMMAS
    0.05: (70.48, 70.66, 72.02),
    0.1: (70.12, 70.94, 71.30),
    0.5: (70.26, 71.18, 70.66),
    1.0: (69.78, 70.48, 72.20),
    2.0: (67.64, 69.58, 70.52),
}


def name_of(weight: float, gamma: float = 0.5) -> str:
    """The name of a recipe of the grid; weight 1 and gamma 0.5 is the recipe of table 1, whose runs are reused."""
    return OPL + ("" if weight == 1 else f"-weight-{weight:g}") + ("" if gamma == 0.5 else f"-gamma-{gamma:g}")


ITEM = Item(
    name="table-8",
    title="CIFAR-100, ResNet-56, weight and gamma by validation",
    dataset="cifar100",
    metrics={"val/top1": "validation top-1 %"},
    rows=tuple(
        Row(f"weight {weight:g}, gamma {gamma:g}", name_of(weight, gamma), {"val/top1": number})
        for weight, numbers in PAPER.items()
        for gamma, number in zip(GAMMAS, numbers, strict=True)
    ),
    seeds=1,
    cost=table_1.ITEM.cost,
    setting=table_1.SETTING,
    home=table_1.ITEM.name,
)


def recipes() -> tuple["Recipe", ...]:
    """The recipes of the rows."""
    from ..methods import CrossEntropyOPL

    return tuple(
        replace(base, name=name_of(weight, gamma), method=CrossEntropyOPL(weight=weight, gamma=gamma))
        for base in table_1.recipes()
        if base.name == OPL
        for weight in PAPER
        for gamma in GAMMAS
    )
