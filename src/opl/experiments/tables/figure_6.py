"""Figure 6: accuracy over the weight of OPL and over the batch size. Cost of one seed: as in table 1, RESULTS.md.

The weights are those of table 8. The paper does not give its batch sizes, nor whether the learning rate is scaled with
them; here it is constant.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

from ..item import Item, Row
from ..scales import SCALES
from . import table_1, table_8

if TYPE_CHECKING:
    from ..recipe import Recipe

# The batch sizes beside that of table 1, which has 128 at the paper's scale, 64 at the small and 16 at the tiny one.
SIZES: dict[str, tuple[int, ...]] = {"paper": (32, 64, 256, 512), "small": (32, 128, 256, 512), "tiny": (32, 64)}
CE, OPL = table_1.PAIR
OTHERS = tuple(weight for weight in table_8.PAPER if table_8.name_of(weight) != OPL.recipe)


def name_of(recipe: str, size: int) -> str:
    """The name of a table 1 recipe with another batch size."""
    return f"{recipe}-batch-{size}"


def _batch_rows(size: int) -> tuple[Row, Row]:
    ce, opl = name_of(CE.recipe, size), name_of(OPL.recipe, size)
    scales = tuple(scale for scale in SCALES if size in SIZES[scale])
    return (
        Row(f"{CE.label}, batch {size}", ce, {}, scales=scales),
        Row(f"{OPL.label}, batch {size}", opl, {}, baseline=ce, scales=scales),
    )


ITEM = Item(
    name="figure-6",
    title="CIFAR-100, accuracy over the weight of OPL and over the batch size",
    dataset="cifar100",
    metrics={"test/top1": "top-1 %"},
    rows=(
        *table_1.PAIR,
        *(Row(f"{OPL.label}, weight {weight:g}", table_8.name_of(weight), {}, CE.recipe) for weight in OTHERS),
        *(row for size in (32, 64, 128, 256, 512) for row in _batch_rows(size)),
    ),
    cost=table_1.ITEM.cost,
    setting=table_1.SETTING,
    figure="search",
    home=table_1.ITEM.name,
)


def recipes() -> tuple["Recipe", ...]:
    """The recipes of the rows, and all recipes of table 8."""
    bases = [recipe for recipe in table_1.recipes() if recipe.name in (CE.recipe, OPL.recipe)]
    batches = (
        replace(base, name=name_of(base.name, size), batch_size=size) for base in bases for size in SIZES[base.scale]
    )
    return (*bases, *table_8.recipes(), *batches)
