"""Figure 6: accuracy over the weight of OPL and over the batch size. Cost of one seed: as in table 8.

The weights are those of table 8 at gamma 0.5, and so are their runs. The paper does not give its batch sizes, nor
whether the learning rate is scaled with them. Here both rules are run, with and without OPL: a constant learning rate,
and one in proportion to the batch size ("scaled"), equal at the batch size of table 8.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

from ..item import Item, Row
from ..scales import SCALES
from . import table_8

if TYPE_CHECKING:
    from ..recipe import Recipe

# The batch sizes beside that of table 8, which has 128, and 16 at the tiny scale.
SIZES: dict[str, tuple[int, ...]] = {"paper": (32, 64, 256, 512), "small": (32, 64, 256, 512), "tiny": (32, 64)}
RULES = {"": "", "-scaled": ", learning rate scaled"}  # ending of a recipe's name -> ending of its label
CE, OPL = table_8.CE, table_8.name_of(*table_8.CHOSEN)
OTHERS = tuple(weight for weight in table_8.PAPER if table_8.name_of(weight) != OPL)


def name_of(recipe: str, size: int, rule: str = "") -> str:
    """The name of a table 8 recipe with another batch size."""
    return f"{recipe}-batch-{size}{rule}"


def _batch_rows(size: int, rule: str) -> tuple[Row, Row]:
    ce, opl = name_of(CE, size, rule), name_of(OPL, size, rule)
    scales = tuple(scale for scale in SCALES if size in SIZES[scale])
    ending = f"batch {size}{RULES[rule]}"
    return Row(f"CE, {ending}", ce, {}, scales=scales), Row(f"CE+OPL, {ending}", opl, {}, baseline=ce, scales=scales)


ITEM = Item(
    name="figure-6",
    title="CIFAR-100, accuracy over the weight of OPL and over the batch size",
    dataset="cifar100",
    metrics={"test/top1": "top-1 %"},
    rows=(
        Row("CE", CE, {}),
        Row("CE+OPL", OPL, {}, CE),
        *(Row(f"CE+OPL, weight {weight:g}", table_8.name_of(weight), {}, CE) for weight in OTHERS),
        *(row for rule in RULES for size in (32, 64, 256, 512) for row in _batch_rows(size, rule)),
    ),
    cost=table_8.ITEM.cost,
    note="The learning rate is constant over batch sizes, or where it is scaled in proportion to them.",
    figure="sweeps",
    home=table_8.ITEM.name,
)


def recipes() -> tuple["Recipe", ...]:
    """The recipes of the rows, and all recipes of table 8."""
    grid = table_8.recipes()
    return (
        *grid,
        *(
            _resized(base, size, rule)
            for base in grid
            if base.name in (CE, OPL)
            for size in SIZES[base.scale]
            for rule in RULES
        ),
    )


def _resized(base: "Recipe", size: int, rule: str) -> "Recipe":
    lr = base.optimizer.lr * size / base.batch_size if rule else base.optimizer.lr
    return replace(base, name=name_of(base.name, size, rule), batch_size=size, optimizer=replace(base.optimizer, lr=lr))
