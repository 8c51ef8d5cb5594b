"""Figure 6: accuracy over the weight of OPL and over the batch size."""

from ..item import Item, Row
from .table_1 import ITEM as TABLE_1

WEIGHTS = (0.05, 0.1, 0.5, 2.0)  # and 1, which table 1 has
SIZES = (32, 64, 256, 512)  # and 128
ITEM = Item(
    name="figure-6",
    title="CIFAR-100, accuracy over the weight of OPL and over the batch size",
    dataset="cifar100",
    metrics={"test/top1": "top-1 %"},
    rows=(
        *TABLE_1.rows[:2],
        *(
            Row(f"CE+OPL, weight {weight:g}", f"cifar100-resnet56-opl-weight-{weight:g}", {}, "cifar100-resnet56-ce")
            for weight in WEIGHTS
        ),
        *(
            Row(
                f"{label}, batch {size}",
                f"cifar100-resnet56-{name}-batch-{size}",
                {},
                f"cifar100-resnet56-ce-batch-{size}" if name == "opl" else "",
            )
            for size in SIZES
            for name, label in (("ce", "CE"), ("opl", "CE+OPL"))
        ),
    ),
    cost=TABLE_1.cost,
    figure="search",
    home="table-1",
)
