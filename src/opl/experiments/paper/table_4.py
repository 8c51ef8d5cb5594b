"""Table 4, adversarial robustness. Cost of one seed, the paper's figures and ours: RESULTS.md, table 4.

Madry, Hendrycks and MART with and without OPL, evaluated with the standard AutoAttack. The paper gives no network,
radius, schedule or weight, and no code was released for this table. Each method has the network and schedule of its
own source: Madry its w32-10, Hendrycks a WRN-28-10, MART a ResNet-18, TRADES (not in the paper) a WRN-34-10. OPL has
weight 1 and gamma 0.5; it is applied to the features of the adversarial examples and is not used to generate them.
Rows that are compared differ only in OPL. All rows are attacked at 8/255, and at the scales paper and tiny also at
0.031, with which MART and TRADES are trained there; at small scale they are trained with 8/255. The last weights are
tested.

Differences from the sources: Madry trained for 80,000 steps, here for 205 epochs of 391; and TensorFlow pads strided
convolutions on one side only. Hendrycks mapped pixels to 2x - 1; here the network normalizes by the mean and std of the
data that it is trained on, in fine-tuning those of the new data. Hendrycks pre-trained on ImageNet at 32 x 32; here it
is replaced by the *other* CIFAR. Hendrycks's code perturbed the clean batch in place, so that its perturbations reached
twice the radius; here they do not. Madry and MART have no code for CIFAR-100: their recipes for CIFAR-10 are used.

The small scale trains the fast network with a quarter of its width for 6 epochs in bf16 against 7 steps of PGD, for all
methods; Hendrycks fine-tunes the run of Madry on the other CIFAR for 2 epochs. The plan, written before any run, is
docs/study.md, section "Table 4".
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from ..evaluation.protocols import Attack
from ..item import MINUTE, Cost, Item, Measure, Row
from ..radius import format_radius
from ..run_folder import measure_name
from ..scales import SCALES, Scale
from ..settings import to_json
from .variant import Variant

if TYPE_CHECKING:
    from ..recipe import Recipe
    from ..types import DataSet

NEAR = 0.031  # the radius that MART and TRADES train with
RADII: dict[Scale, tuple[float, ...]] = {"paper": (8 / 255, NEAR), "small": (8 / 255,), "tiny": (8 / 255, NEAR)}
LENGTHS: dict[Scale, dict[str, Any]] = {  # images=0 attacks all test images
    "paper": {"images": 0},
    "small": {"images": 500},
    "tiny": {"images": 20, "iterations": 2, "queries": 3},
}
QUICK = {"tiny": ("--no-sanity",)}
ATTACKS = {scale: [Attack(eps=eps, **LENGTHS[scale]) for eps in RADII[scale]] for scale in SCALES}
CLEAN, UNDER_PGD = "test/top1", Attack().metric("pgd")
UNDER_ATTACK, UNDER_NEAR_ATTACK = (attack.metric("autoattack") for attack in ATTACKS["paper"])
UNDER_SHORT_ATTACK, UNDER_NEAR_SHORT_ATTACK = (attack.metric("autoattack") for attack in ATTACKS["tiny"])
INNER_LOOP: dict[Scale, dict[str, Any]] = {"paper": {}, "small": {"steps": 7}, "tiny": {"steps": 2}}


@dataclass(frozen=True)
class Benchmark:
    """A data set of the table, and the data set to pre-train on."""

    label: str
    other: str


CIFAR10, CIFAR100 = "cifar10", "cifar100"
BENCHMARKS = {CIFAR10: Benchmark("CIFAR-10", CIFAR100), CIFAR100: Benchmark("CIFAR-100", CIFAR10)}


LARGE: tuple[Scale, ...] = ("paper", "tiny")
PRETRAINED, PRETRAINING = "pretrained", Variant("pre-training", itemgetter("pretrained"), scales=LARGE)
"""The training that Hendrycks starts from; it has no row."""
VARIANTS = {
    "standard": Variant("trained without attacks", itemgetter("standard")),
    "madry": Variant("Madry", itemgetter("madry"), paper={CIFAR10: (87.14, 44.04), CIFAR100: (60.20, 20.60)}),
    "madry-opl": Variant(
        "Madry+OPL", itemgetter("madry"), "madry", {CIFAR10: (87.76, 49.15), CIFAR100: (61.13, 23.01)}
    ),
    "hendrycks": Variant(
        "Hendrycks", itemgetter("hendrycks"), paper={CIFAR10: (87.11, 54.92), CIFAR100: (59.23, 28.42)}
    ),
    "hendrycks-opl": Variant(
        "Hendrycks+OPL", itemgetter("hendrycks"), "hendrycks", {CIFAR10: (87.51, 55.73), CIFAR100: (61.00, 30.05)}
    ),
    "mart": Variant("MART", itemgetter("mart"), paper={CIFAR10: (84.49, 54.10), CIFAR100: (58.90, 23.40)}),
    "mart-opl": Variant("MART+OPL", itemgetter("mart"), "mart", {CIFAR10: (84.41, 56.23), CIFAR100: (58.01, 25.74)}),
    "trades": Variant("TRADES", itemgetter("trades"), scales=LARGE),
    "trades-opl": Variant("TRADES+OPL", itemgetter("trades"), "trades", scales=LARGE),
}
"""The methods take one of the recipes of `_paper_methods` or `_small_methods`, which were made without or with OPL."""


def _paper_methods(madry: "Recipe", settings: dict[str, Any]) -> "dict[str, Recipe]":
    """The recipe of each method and of the pre-training, from that of Madry, which is named after its data set."""
    from ...optim import SGD, Cosine, Steps
    from ..methods import MART, TRADES, AdversarialTraining, CrossEntropy
    from ..models import ResNet, WideResNet

    trained = replace(madry, method=AdversarialTraining(**settings))
    pretrained = replace(
        trained,
        data=_data(BENCHMARKS[madry.name].other),
        model=WideResNet(depth=28),
        optimizer=SGD(lr=0.1, weight_decay=5e-4, nesterov=True),
        schedule=Cosine(floor=1e-5),
        epochs=100,
        batch_size=256,
        normalize="model",
    )
    tuned = replace(
        pretrained,
        data=_data(madry.name),
        optimizer=SGD(lr=0.001, weight_decay=5e-4, nesterov=True),
        schedule=Cosine(floor=1e-3),
        epochs=5,
        batch_size=128,
        after=name_of(madry.name, PRETRAINED),
        inherit=True,
        new_head=True,
    )
    mart = replace(
        madry,
        data=_data(madry.name),
        model=ResNet(depth=18, stem="cifar"),
        method=MART(weight=5.0, **settings),
        optimizer=SGD(lr=0.01, weight_decay=3.5e-3),
        schedule=Steps(milestones=(74, 89, 99), factor=0.1),
        epochs=120,
    )
    trades = replace(
        madry,
        data=_data(madry.name),
        model=WideResNet(depth=34),
        method=TRADES(**settings),
        schedule=Steps(milestones=(74,), factor=0.1),
        epochs=76,
    )
    standard = replace(madry, method=CrossEntropy())
    return {
        PRETRAINED: pretrained,
        "standard": standard,
        "madry": trained,
        "hendrycks": tuned,
        "mart": mart,
        "trades": trades,
    }


def _small_methods(madry: "Recipe", settings: dict[str, Any]) -> "dict[str, Recipe]":
    """The same at the small scale, where Hendrycks starts from the run of Madry on the other data set."""
    from ...optim import SGD, Cosine
    from ..methods import MART, AdversarialTraining, CrossEntropy

    trained = replace(madry, method=AdversarialTraining(**settings))
    after = name_of(BENCHMARKS[madry.name].other, "madry")
    tuned = replace(trained, optimizer=SGD(lr=0.02), schedule=Cosine(), epochs=2)
    return {
        "standard": replace(madry, method=CrossEntropy()),
        "madry": trained,
        "hendrycks": replace(tuned, after=after, inherit=True, new_head=True),
        "mart": replace(madry, method=MART(eps=8 / 255, **settings)),
    }


def name_of(dataset: str, key: str) -> str:
    """The name of a recipe: data set and variant."""
    return f"{dataset}-robust-{key}"


def _row(dataset: str, key: str) -> Row:
    benchmark, variant = BENCHMARKS[dataset], VARIANTS[key]
    trained_on_both = key.startswith("hendrycks")
    return variant.row(
        f"{benchmark.label} ",
        key,
        partial(name_of, dataset),
        paper=variant.numbers(dataset, (CLEAN, UNDER_ATTACK)),
        needs=CIFAR10 if dataset == CIFAR10 or trained_on_both else "",
    )


def _measure(scale: Scale) -> Measure:
    pairs = [(attack, kind) for attack in ATTACKS[scale] for kind in attack.kinds]
    settings = {measure_name(attack.metric(kind)): to_json(attack.alone(kind)) for attack, kind in pairs}
    flags = (word for name, value in LENGTHS[scale].items() for word in (f"--{name}", str(value)))
    argv = ("attack", "--eps", *map(format_radius, RADII[scale]), *flags, *QUICK.get(scale, ()))
    return Measure(argv, tuple(settings), (scale,), tuple(settings.values()))


TABLE_4 = Item(
    name="table-4",
    task="adversarial robustness",
    title="Adversarial robustness, L-infinity, 8/255",
    dataset="cifar10, cifar100",
    metrics={
        CLEAN: "clean %",
        UNDER_PGD: "PGD-20 %",
        UNDER_ATTACK: "AutoAttack %",
        UNDER_NEAR_ATTACK: f"AutoAttack at {NEAR} %",
        UNDER_SHORT_ATTACK: "shortened AutoAttack %",
        UNDER_NEAR_SHORT_ATTACK: f"shortened AutoAttack at {NEAR} %",
    },
    rows=tuple(_row(dataset, key) for dataset in BENCHMARKS for key in VARIANTS),
    what="method",
    seeds=2,
    costs={"small": Cost(18 * MINUTE)},  # 13 min of training, and 5 min under attack
    setting="network, radius and schedule not named",
    note="Clean: all test images; attacked: all at paper scale, 500 at small, 20 at tiny. The paper names no network, "
    "radius or schedule; its Madry (CIFAR-10) and Hendrycks baselines are from the list of AutoAttack, with other "
    "networks. At small scale all methods train with the radius 8/255.",
    compared=(CLEAN, UNDER_ATTACK, UNDER_SHORT_ATTACK),
    measures=tuple(_measure(scale) for scale in ATTACKS),
    unit="images",
    others=tuple(name_of(dataset, PRETRAINED) for dataset in BENCHMARKS),
)
ITEMS = (TABLE_4,)


def recipes() -> tuple["Recipe", ...]:
    """The recipes of the rows, and of the pre-training that Hendrycks starts from."""
    return tuple(recipe for dataset in BENCHMARKS for scale in SCALES for recipe in _recipes_at(dataset, scale))


def _recipes_at(dataset: str, scale: Scale) -> "Iterator[Recipe]":
    from ..methods import OPL

    base, methods = _base(dataset, scale), _small_methods if scale == "small" else _paper_methods
    for key, variant in {PRETRAINED: PRETRAINING, **VARIANTS}.items():
        if scale in variant.scales:
            auxiliary = {"auxiliary": (OPL(),)} if key.endswith("-opl") else {}
            recipe = variant.method(methods(base, INNER_LOOP[scale] | auxiliary))
            yield replace(_tiny(recipe) if scale == "tiny" else recipe, name=name_of(dataset, key))


def _tiny(recipe: "Recipe") -> "Recipe":
    """Shrink a recipe of the paper's scale so far that it learns something in a second."""
    from ...optim import SGD
    from ..data import Synthetic
    from ..models import CifarResNet

    like: Any = recipe.data.name
    few = Synthetic(like, rows=120, val=20, test=60, classes=5, noise=0.2, pixels=16)
    short = replace(recipe, data=few, model=CifarResNet(depth=8, width=8), normalize="model", scale="tiny")
    return replace(short, optimizer=SGD(lr=0.1), epochs=3, batch_size=12)


def _data(dataset: str, **settings: Any) -> "DataSet":
    """A data set without validation set and color jitter, cropped with the usual padding of 4, unless set otherwise."""
    from ..data import Cifar10, Cifar100

    given = {"val": 0, "jitter": 0.0, **settings}
    return Cifar10(**given) if dataset == CIFAR10 else Cifar100(**given)


def _base(dataset: str, scale: Scale) -> "Recipe":
    """The recipe of Madry on a data set, at the small scale or else at the paper's."""
    from ...optim import SGD, Muon, Steps, Triangle
    from ..data import FastCifar10, FastCifar100
    from ..methods import AdversarialTraining
    from ..models import FastNet, MadryResNet
    from ..recipe import Recipe

    paper = Recipe(
        name=dataset,
        data=_data(dataset, padding=2),
        model=MadryResNet(),
        method=AdversarialTraining(),
        optimizer=SGD(lr=0.1, weight_decay=2e-4),
        schedule=Steps(milestones=(102, 153), factor=0.1),
        epochs=205,
        normalize="none",
    )
    if scale != "small":
        return paper
    return replace(
        paper,
        data=FastCifar10(val=500) if dataset == CIFAR10 else FastCifar100(val=500),
        model=FastNet(half=True, width=32),
        optimizer=Muon(),
        schedule=Triangle(),
        epochs=6,
        batch_size=500,
        precision="bf16-mixed",
        eval_every=6,
        normalize="model",
        scale="small",
    )
