"""Table 8: the search for the weight and gamma, by validation. Cost of one seed: as in table 1, RESULTS.md.

The paper holds out 5,000 of the 50,000 training images and reports one accuracy for each pair, without cross-entropy
beside it. The released code prints the accuracy of the best validation epoch; here it is that of the last epoch, and
cross-entropy is trained with the same seeds and held-out images, and every pair is compared with it.

At the paper's scale all settings are those of table 1. The small scale trains ResNet-8 on 20 classes for 20 epochs of
one cycle of the learning rate in bf16, without the jitter of colors, which takes cross-entropy above 60 %; 989 of the
held-out images are of these classes.

Figure 6 shows the accuracy over the weight of OPL, from the runs of table 8 with gamma 0.5, and over the batch size.
The paper does not give its batch sizes, nor whether the learning rate is scaled with them. Here both rules are run,
with and without OPL: a constant learning rate, and one in proportion to the batch size ("scaled"), equal at the batch
size of table 8. The flow of OPL, not in the paper, shows in which direction OPL moves s and d for some gammas, and the
paths of runs.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

from ..item import HOUR, MINUTE, Cost, Item, Row
from ..scales import SCALES
from . import table_1
from .variant import at_scales, item_of_runs

if TYPE_CHECKING:
    from ..recipe import Recipe

PREFIX = "cifar100-search"
CE = f"{PREFIX}-ce"
GAMMAS = (2.0, 1.0, 0.5)
PAPER = {  # weight -> accuracy for each of GAMMAS
    0.05: (70.48, 70.66, 72.02),
    0.1: (70.12, 70.94, 71.30),
    0.5: (70.26, 71.18, 70.66),
    1.0: (69.78, 70.48, 72.20),
    2.0: (67.64, 69.58, 70.52),
}
CHOSEN = (1.0, 0.5)
# The batch sizes beside that of table 8, which has 128, and 16 at the tiny scale.
SIZES: dict[str, tuple[int, ...]] = {"paper": (32, 64, 256, 512), "small": (32, 64, 256, 512), "tiny": (32, 64)}
RULES = {"": "", "-scaled": ", learning rate scaled"}  # ending of a recipe's name -> ending of its label
FLOW_GAMMAS = (0.5, 1.0, 2.0)


def name_of(weight: float, gamma: float = CHOSEN[1]) -> str:
    """The name of a recipe of the grid; the pair that the paper chose has the short name."""
    pair = "" if (weight, gamma) == CHOSEN else f"-weight-{weight:g}-gamma-{gamma:g}"
    return f"{PREFIX}-opl{pair}"


OPL = name_of(*CHOSEN)


def resized_name(recipe: str, size: int, rule: str = "") -> str:
    """The name of a recipe with another batch size."""
    return f"{recipe}-batch-{size}{rule}"


def _batch_rows(size: int, rule: str) -> tuple[Row, Row]:
    ce, opl = resized_name(CE, size, rule), resized_name(OPL, size, rule)
    scales = tuple(scale for scale in SCALES if size in SIZES[scale])
    ending = f"batch {size}{RULES[rule]}"
    return Row(f"CE, {ending}", ce, {}, scales=scales), Row(f"CE+OPL, {ending}", opl, {}, baseline=ce, scales=scales)


TABLE_8 = Item(
    name="table-8",
    title="CIFAR-100, ResNet-56, weight and gamma by validation",
    dataset="cifar100",
    metrics={"val/top1": "validation top-1 %"},
    rows=(
        Row("CE", CE, {}),
        *(
            Row(f"CE+OPL, weight {weight:g}, gamma {gamma:g}", name_of(weight, gamma), {"val/top1": number}, CE)
            for weight, numbers in PAPER.items()
            for gamma, number in zip(GAMMAS, numbers, strict=True)
        ),
    ),
    costs={"small": Cost(5 * MINUTE), "paper": Cost(22 * HOUR, cores=2)},
    note="The validation set is held out of the training images; the test set takes no part in this table. Ours is the "
    "last epoch; the released code prints the best validation epoch.",
    setting=table_1.SETTING,
    figure="weight_grid",
    headline=name_of(*CHOSEN),
)
FIGURE_6 = Item(
    name="figure-6",
    title="CIFAR-100, accuracy over the weight of OPL and over the batch size",
    dataset="cifar100",
    metrics={"test/top1": "top-1 %"},
    rows=(
        Row("CE", CE, {}),
        Row("CE+OPL", OPL, {}, CE),
        *(Row(f"CE+OPL, weight {weight:g}", name_of(weight), {}, CE) for weight in PAPER if name_of(weight) != OPL),
        *(row for rule in RULES for size in SIZES["paper"] for row in _batch_rows(size, rule)),
    ),
    costs=TABLE_8.costs,
    note="The learning rate is constant over batch sizes, or in proportion to them where it is scaled.",
    figure="sweeps",
    home=TABLE_8.name,
)
FIGURE_FLOW = item_of_runs(
    TABLE_8,
    "figure-flow",
    "CIFAR-100, s and d during training in the flow of OPL (not in the paper)",
    (
        Row("CE", CE, {}),
        *(Row(f"CE+OPL, gamma {gamma:g}", name_of(CHOSEN[0], gamma), {}, baseline=CE) for gamma in FLOW_GAMMAS),
    ),
    metrics={"val/top1": "validation top-1 %", "test/s": "s", "test/d": "d"},
    figure="flow",
)
ITEMS = (TABLE_8, FIGURE_6, FIGURE_FLOW)


def recipes() -> tuple["Recipe", ...]:
    """The recipes of the grid, and CE and CE+OPL with other batch sizes."""
    from ..methods import CrossEntropyOPL

    made: list[Recipe] = []
    for base in _bases():
        grid = {
            name_of(weight, gamma): replace(
                base, name=name_of(weight, gamma), method=CrossEntropyOPL(weight=weight, gamma=gamma)
            )
            for weight in PAPER
            for gamma in GAMMAS
        }
        made += [base, *grid.values()]
        made += [
            _resized(recipe, size, rule) for recipe in (base, grid[OPL]) for size in SIZES[base.scale] for rule in RULES
        ]
    return tuple(made)


def _resized(base: "Recipe", size: int, rule: str) -> "Recipe":
    lr = base.optimizer.lr * size / base.batch_size if rule else base.optimizer.lr
    optimizer = replace(base.optimizer, lr=lr)
    return replace(base, name=resized_name(base.name, size, rule), batch_size=size, optimizer=optimizer)


def _bases() -> "tuple[Recipe, ...]":
    """Cross-entropy at each scale; the small scale has settings of its own."""
    from ...optim import OneCycle
    from ..data import Cifar100
    from ..models import CifarResNet

    paper, tiny = (replace(base, name=CE) for base in table_1.bases())
    small = replace(
        paper,
        data=Cifar100(classes=20, jitter=0.0),
        model=CifarResNet(depth=8),
        schedule=OneCycle(),
        epochs=20,
        precision="bf16-mixed",
    )
    return at_scales(paper, small=small, tiny=tiny)
