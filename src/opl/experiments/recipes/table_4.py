"""Table 4, adversarial robustness. Cost of one seed, the paper's figures and ours: RESULTS.md, table 4.

The paper names no network, radius, schedule or weight, and released no code for this table. Each method has the
network and schedule of its own source: Madry a WRN-34-10, Hendrycks a WRN-28-10, MART a ResNet-18, TRADES (not in the
paper) a WRN-34-10. OPL has weight 1 and gamma 0.5, on the features of the adversarial examples, and no part in making
them. Rows that are compared differ in OPL alone.

What differs from the sources: Madry and Hendrycks are normalized by mean and deviation of the data (a part of the
network; they had each image's own, and 2x - 1). Hendrycks pre-trained on ImageNet at 32 x 32: the stand-in here is the
*other* CIFAR, and at small scale other classes of CIFAR-100. Hendrycks's code moved the clean batch itself, so that
its perturbations reached twice the radius; here they do not. The last weights are tested.
"""

from dataclasses import replace

from ...optim import SGD, Cosine, Steps
from ..data.sets import Cifar10, Cifar100, DataSet, Synthetic
from ..methods import MART, OPL, TRADES, AdversarialTraining, CrossEntropy
from ..models import CifarResNet, ResNet, WideResNet
from ..recipe import Recipe

BESIDE = (OPL(),)
DATA: dict[str, DataSet] = {"cifar10": Cifar10(val=0), "cifar100": Cifar100(val=0, jitter=0.0)}
OTHER = {"cifar10": DATA["cifar100"], "cifar100": DATA["cifar10"]}
MADRY = Recipe(
    name="madry",
    data=Cifar10(),
    model=WideResNet(depth=34),
    method=AdversarialTraining(),
    optimizer=SGD(lr=0.1, weight_decay=2e-4),
    schedule=Steps(milestones=(102, 153), factor=0.1),
    epochs=205,
    normalize="model",
)
PRETRAINED = replace(
    MADRY,
    model=WideResNet(depth=28),
    optimizer=SGD(lr=0.1, weight_decay=5e-4, nesterov=True),
    schedule=Cosine(floor=1e-5),
    epochs=100,
    batch_size=256,
)
HENDRYCKS = replace(
    PRETRAINED,
    optimizer=SGD(lr=0.001, weight_decay=5e-4, nesterov=True),
    schedule=Cosine(floor=1e-3),
    epochs=5,
    batch_size=128,
)
MART_18 = replace(
    MADRY,
    model=ResNet(depth=18, stem="cifar"),
    method=MART(weight=5.0),
    optimizer=SGD(lr=0.01, weight_decay=3.5e-3),
    schedule=Steps(milestones=(74, 89, 99), factor=0.1),
    epochs=120,
    normalize="none",
)
TRADES_34 = replace(MADRY, method=TRADES(), schedule=Steps(milestones=(74,), factor=0.1), epochs=76, normalize="none")
PAPER = {
    "standard": replace(MADRY, method=CrossEntropy()),
    "madry": MADRY,
    "pretrained": PRETRAINED,
    "hendrycks": HENDRYCKS,
    "mart": MART_18,
    "trades": TRADES_34,
}
# Small: the ten classes of two super-classes (natural scenes; vehicles), a shallow and narrow network, five steps of
# the inner loop, one schedule for all. Pre-training is on the twenty classes of four other super-classes.
ONE = replace(
    MADRY,
    data=Cifar100(val=5000, jitter=0.0, superclasses=(10, 18)),
    model=CifarResNet(depth=8, width=8),
    method=AdversarialTraining(step=3 / 255, steps=5),
    optimizer=SGD(lr=0.05, weight_decay=5e-4),
    schedule=Cosine(warmup=1),
    epochs=8,
    batch_size=64,
    scale="small",
)
SMALL = {
    "standard": replace(ONE, method=CrossEntropy()),
    "madry": ONE,
    "pretrained": replace(ONE, data=Cifar100(val=5000, jitter=0.0, superclasses=(2, 4, 9, 19)), epochs=5),
    "hendrycks": replace(ONE, optimizer=SGD(lr=0.02, weight_decay=5e-4), schedule=Cosine(), epochs=3),
    "mart": replace(ONE, method=MART(eps=8 / 255, step=3 / 255, steps=5)),
}
FEW = Synthetic(like="cifar100", rows=64, val=16, test=16, classes=5)
TINY = {
    name: replace(each, data=FEW, model=CifarResNet(depth=8, width=8), epochs=1, batch_size=32, scale="tiny")
    for name, each in PAPER.items()
}
TINY["pretrained"] = replace(TINY["pretrained"], data=replace(FEW, classes=7))


def _quick(each: Recipe) -> Recipe:
    """Two steps of the inner loop, for a smoke run."""
    method = each.method
    return (
        replace(each, method=replace(method, steps=2))
        if isinstance(method, AdversarialTraining | MART | TRADES)
        else each
    )


def _with_opl(each: Recipe) -> Recipe:
    method = each.method
    assert isinstance(method, AdversarialTraining | MART | TRADES)
    return replace(each, method=replace(method, auxiliary=BESIDE))


def _variants(place: str, bases: dict[str, Recipe]) -> dict[str, Recipe]:
    after = f"{place}-robust-pretrained"
    bases = {**bases, "hendrycks": replace(bases["hendrycks"], after=after, inherit=True, new_head=True)}
    plain = ("standard", "pretrained")
    return bases | {f"{name}-opl": _with_opl(each) for name, each in bases.items() if name not in plain}


def _placed(place: str) -> dict[str, Recipe]:
    """The paper's scale on one data set, pre-training on the other."""
    return {name: replace(each, data=(OTHER if name == "pretrained" else DATA)[place]) for name, each in PAPER.items()}


SHELVES = [
    *((place, _placed(place)) for place in DATA),
    ("cifar100", SMALL),
    ("cifar100", {name: _quick(each) for name, each in TINY.items()}),
]
RECIPES = tuple(
    replace(recipe, name=f"{place}-robust-{name}")
    for place, bases in SHELVES
    for name, recipe in _variants(place, bases).items()
)
