"""Figure 6: accuracy over the weight of OPL and over the batch size. Cost of one seed: that of table 1, RESULTS.md.

The paper names neither its batch sizes nor whether the learning rate follows them; here it stays.
"""

from dataclasses import replace

from ..methods import CrossEntropyOPL
from ..tables.figure_6 import SIZES, WEIGHTS
from .table_1 import RECIPES as TABLE_1_RECIPES

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
