"""CIFAR in few epochs, not in the paper: a wide, shallow network for judging losses cheaply.

Cost: RESULTS.md.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

from ..item import MINUTE, Cost, Item, Row
from ..scales import Scale
from .variant import at_scales

if TYPE_CHECKING:
    from ..recipe import Recipe

HALF, FULL, TEN = "cifar100-fast-half", "cifar100-fast", "cifar10-fast"
TEN_HALF = f"{TEN}-half"
SMOOTH, SGD = f"{HALF}-smooth", f"{HALF}-sgd"
SMOOTHING = 0.25  # as in the CIFAR speed-runs
LONG: tuple[Scale, ...] = ("paper", "tiny")

FAST = Item(
    name="fast",
    title="CIFAR in few epochs (not in the paper)",
    dataset="cifar100",
    metrics={"test/top1": "top-1 %", "test/top5": "top-5 %", "seconds": "seconds"},
    rows=(
        Row("half width, CE", HALF, {}, group="half width"),
        Row("half width, CE with label smoothing", SMOOTH, {}, baseline=HALF, group="half width"),
        Row("half width, CE, SGD instead of Muon", SGD, {}, group="half width"),
        Row("half width, CE, CIFAR-10", TEN_HALF, {}, group="half width"),
        Row("full width, CE with label smoothing", FULL, {}, scales=LONG, group="full width"),
        Row("full width, CE with label smoothing, CIFAR-10", TEN, {}, scales=LONG, group="full width"),
    ),
    what="setting",
    seeds=2,
    costs={"small": Cost(8 * MINUTE, cores=2), "paper": Cost(22 * MINUTE, cores=2)},  # half width; full width
)
ITEMS = (FAST,)


def half_width() -> "tuple[Recipe, ...]":
    """Cross-entropy with half the width at each scale: the baseline of all losses."""
    from ...optim import Muon, Triangle
    from ..data import FastCifar100, Synthetic
    from ..methods import CrossEntropy
    from ..models import FastNet
    from ..recipe import Recipe

    paper = Recipe(
        name=HALF,
        data=FastCifar100(val=500),
        model=FastNet(half=True),
        method=CrossEntropy(),
        optimizer=Muon(),
        schedule=Triangle(),
        epochs=9,
        batch_size=1024,
        precision="bf16-mixed",
    )
    tiny = replace(
        paper,
        data=Synthetic(like="cifar100", classes=10, rows=160, val=40, test=40),
        model=FastNet(half=True, width=8),
        epochs=3,
        batch_size=32,
        precision="32-true",
    )
    return at_scales(paper, small=paper, tiny=tiny)


def recipes() -> tuple["Recipe", ...]:
    """The recipes of the rows."""
    from ... import optim
    from ..data import FastCifar10, FastCifar100
    from ..methods import CrossEntropy
    from ..models import FastNet

    made: list[Recipe] = []
    smooth = CrossEntropy(label_smoothing=SMOOTHING)
    for base in half_width():
        sgd = optim.SGD(lr=1.38, momentum=0.9, weight_decay=5e-4, nesterov=True)
        tiny = base.scale == "tiny"
        ten = base.data if tiny else FastCifar10(val=500)
        made += [base, replace(base, name=SMOOTH, method=smooth), replace(base, name=SGD, optimizer=sgd)]
        made.append(replace(base, name=TEN_HALF, data=ten))
        if base.scale in LONG:
            model = FastNet(width=8) if tiny else FastNet()
            hundred = base.data if tiny else FastCifar100(val=500)
            made.append(replace(base, name=FULL, data=hundred, model=model, method=smooth))
            made.append(replace(base, name=TEN, data=ten, model=model, method=smooth))
    return tuple(made)
