"""Figure 6: accuracy over the weight of OPL and over the batch size. Cost of one seed: that of table 1, RESULTS.md.

The paper names neither its batch sizes nor whether the learning rate follows them; here it stays.
"""

from dataclasses import replace

from ..item import Item, Row
from ..methods import CrossEntropyOPL
from .table_1 import ITEM as TABLE_1
from .table_1 import RECIPES as TABLE_1_RECIPES

WEIGHTS = (0.05, 0.1, 0.5, 2.0)  # and 1, which table 1 has
SIZES = (32, 64, 256, 512)  # and 128
CE, OPL = (
    tuple(each for each in TABLE_1_RECIPES if each.name == f"cifar100-resnet56-{name}") for name in ("ce", "opl")
)
RECIPES = (
    *(
        replace(each, name=f"{each.name}-weight-{weight:g}", method=CrossEntropyOPL(weight=weight))
        for each in OPL
        for weight in WEIGHTS
    ),
    *(replace(each, name=f"{each.name}-batch-{size}", batch_size=size) for each in (*CE, *OPL) for size in SIZES),
)
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
