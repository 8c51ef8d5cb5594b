"""Table 8: the search of the weight and of gamma, by validation accuracy."""

from ..item import Item, Row
from .table_1 import ITEM as TABLE_1

GAMMAS = (2.0, 1.0, 0.5)
PAPER = {
    0.05: (70.48, 70.66, 72.02),
    0.1: (70.12, 70.94, 71.30),
    0.5: (70.26, 71.18, 70.66),
    1.0: (69.78, 70.48, 72.20),
    2.0: (67.64, 69.58, 70.52),
}


def name_of(weight: float, gamma: float) -> str:
    """Gamma 0.5 is that of table 1 and figure 6, whose runs are taken."""
    name = "cifar100-resnet56-opl" + ("" if weight == 1 else f"-weight-{weight:g}")
    return name + ("" if gamma == 0.5 else f"-gamma-{gamma:g}")


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
    cost=TABLE_1.cost,
    home="table-1",
)
