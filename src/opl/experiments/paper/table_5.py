"""Table 5, PACS: RSC with and without OPL, each domain held out in turn. Cost and figures: RESULTS.md, table 5.

The protocol is that of RSC's released code: ImageNet weights, 222 px, batches of 64 from all source domains together,
each with its mirror image, without the last, smaller batch of an epoch; 20 epochs, a tenth of the learning rate for the
last five (it steps the schedule before each epoch); weights are selected on the validation images of the source
domains. One difference here: images are resized to 222 px before cropping, not after (the files have 227 px). Plain
training (ERM), which is not in the paper, differs only in the method; it also uses mirror images.

No code was released for RSC with OPL. Here OPL is applied to the pooled features after masking, the same features that
the classifier sees, for all images of a batch, with the paper's weight 1 and gamma 0.5 and with class labels only. The
paper does not name its network; its RSC row is the published one of ResNet-50, except for photo.

`study-domains`, not in the paper, compares the winner of the study with the paper's OPL for ResNet-50, in ERM and RSC,
and shares its runs.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..item import MINUTE, Average, Cost, Item, Quoted, Row
from ..scales import SCALES, Scale
from . import study
from .variant import Variant, at_scales

if TYPE_CHECKING:
    from ..recipe import Recipe

TARGETS = {  # label here, and name in the files
    "art": ("Art", "art_painting"),
    "cartoon": ("Cartoon", "cartoon"),
    "sketch": ("Sketch", "sketch"),
    "photo": ("Photo", "photo"),
}


@dataclass(frozen=True)
class Network:
    """A network of the table: the prefixes of its names and labels, its weights, and the scales of its rows."""

    prefix: str
    label: str
    depth: int
    weights: str
    scales: tuple[Scale, ...]


RESNET50 = Network("", "", 50, "timm/resnet50.tv_in1k", SCALES)
RESNET18 = Network("resnet18-", "ResNet-18 ", 18, "timm/resnet18.tv_in1k", ("paper",))
NETWORKS = (RESNET50, RESNET18)


COLUMNS = (*TARGETS, "average")
VARIANTS = {
    "erm": Variant("ERM", lambda m, half: m.CrossEntropy()),
    "erm-opl": Variant("ERM+OPL", lambda m, half: m.CrossEntropyOPL(), "erm"),
    "rsc": Variant("RSC", lambda m, half: m.RSC(every=half), "erm"),
    "rsc-opl": Variant("RSC+OPL", lambda m, half: m.RSC(every=half, auxiliary=(m.auxiliaries.OPL(),)), "rsc"),
}
"""The methods take `opl.experiments.methods` and half the number of epochs, when RSC starts to mask more."""
PAPER = {  # accuracy on each of `COLUMNS`
    "rsc": (87.89, 82.16, 83.35, 96.47, 87.47),
    "rsc-opl": (88.28, 84.64, 84.17, 96.83, 88.48),
}
QUOTED = {  # by the paper: accuracy on each of `COLUMNS`
    "JiGen": (86.20, 78.70, 70.63, 97.66, 83.29),
    "MASF": (82.89, 80.49, 72.29, 95.01, 82.67),
    "MetaReg": (87.20, 79.20, 70.30, 97.60, 83.60),
}
# Not in the paper and without a row: OPL on the features before masking, and DomainBed's masking.
RELATIVES = {
    "rsc-opl-before": Variant(
        "RSC+OPL before masking", lambda m, half: m.RSC(every=half, place="before", auxiliary=(m.auxiliaries.OPL(),))
    ),
    "rsc-domainbed": Variant("RSC of DomainBed", lambda m, half: m.RSC.domainbed()),
    "rsc-domainbed-opl": Variant("RSC of DomainBed+OPL", lambda m, half: m.RSC.domainbed((m.auxiliaries.OPL(),))),
}


def name_of(target: str, network: Network, key: str) -> str:
    """The name of a recipe; with the target `average`, the name of a mean over the targets."""
    return f"pacs-{target}-{network.prefix}{key}"


def _row(network: Network, target: str, key: str) -> Row:
    """The row of a variant; the paper's numbers stand beside ResNet-50."""
    numbers = dict(zip(COLUMNS, PAPER.get(key, ()), strict=False)) if network is RESNET50 else {}
    label = TARGETS[target][0] if target in TARGETS else target
    return VARIANTS[key].row(
        f"{network.label}{label} ",
        name_of(target, network, key),
        lambda key: name_of(target, network, key),
        paper={"test/top1": numbers[target]} if numbers else {},
        scales=network.scales,
    )


def _average(network: Network, key: str) -> Average:
    return Average(_row(network, "average", key), tuple(name_of(target, network, key) for target in TARGETS))


TABLE_5 = Item(
    name="table-5",
    task="domain generalization",
    title="PACS, each domain left out of training in turn",
    dataset="pacs",
    metrics={"test/top1": "top-1 %", "val/top1": "source validation %", "test/s": "s", "test/d": "d"},
    rows=tuple(_row(network, target, key) for network in NETWORKS for target in TARGETS for key in VARIANTS),
    what="target and method",
    seeds=2,
    costs={"small": Cost(2 * MINUTE)},
    note="Weights are chosen by validation images of the source domains. The paper's RSC row is copied, but for photo.",
    setting="network and epochs not named (RSC's row: ResNet-50 with ImageNet weights)",
    quoted=tuple(
        Quoted(f"{label} {method}", {"test/top1": numbers[column]})
        for column, label in enumerate((*(label for label, _ in TARGETS.values()), "average"))
        for method, numbers in QUOTED.items()
    ),
    averages=tuple(_average(network, key) for network in NETWORKS for key in VARIANTS),
    others=(
        *(name_of(target, RESNET50, key) for target in TARGETS for key in RELATIVES),
        *(f"domains-{key}" for key in (*VARIANTS, *RELATIVES)),
    ),
    pretrained=True,
)
STUDIED = {"erm-opl": "erm", "rsc-opl": "rsc"}  # with the paper's OPL, and its name with the winner
WINNER_NAMES = {
    name_of(target, RESNET50, opl): study.name_of(name_of(target, RESNET50, key))
    for target in COLUMNS
    for opl, key in STUDIED.items()
}
"""The recipes with OPL that the study repeats with its winner, and their new names."""


def _studied_rows(target: str, key: str) -> tuple[Row, Row]:
    opl = replace(_row(RESNET50, target, key), paper={}, baseline="")
    return opl, study.winner_row(opl, WINNER_NAMES)


def _studied_averages(key: str) -> tuple[Average, Average]:
    opl, winner = _studied_rows("average", key)
    parts = tuple(name_of(target, RESNET50, key) for target in TARGETS)
    return Average(opl, parts), Average(winner, tuple(WINNER_NAMES[part] for part in parts))


STUDY_DOMAINS = replace(
    TABLE_5,
    name="study-domains",
    title="PACS: the winner of the study vs the paper's OPL (not in the paper)",
    rows=tuple(row for target in TARGETS for key in STUDIED for row in _studied_rows(target, key)),
    note="Weights are chosen by validation images of the source domains. The winner is compared with OPL.",
    setting="",
    quoted=(),
    averages=tuple(average for key in STUDIED for average in _studied_averages(key)),
    others=(),
    home=TABLE_5.name,
    headline=next(iter(WINNER_NAMES.values())),
)
ITEMS = (TABLE_5, STUDY_DOMAINS)


def recipes() -> tuple["Recipe", ...]:
    """The recipes of the rows and, for ResNet-50, of `RELATIVES`; also the same for any other data set with domains."""
    made = [
        replace(recipe, name=name_of(target, network, recipe.name))
        for network in NETWORKS
        for target, (_, domain) in TARGETS.items()
        for base in _bases(network, domain)
        for recipe in _with_methods(base, VARIANTS | (RELATIVES if network is RESNET50 else {}))
    ]
    others = [
        replace(recipe, name=f"domains-{recipe.name}")
        for base in _other_bases()
        for recipe in _with_methods(base, VARIANTS | RELATIVES)
    ]
    return *made, *others, *study.with_winner(made, WINNER_NAMES)


def _with_methods(base: "Recipe", variants: Mapping[str, Variant]) -> "list[Recipe]":
    """One recipe per method, named after its key."""
    from .. import methods

    half = -(-base.epochs // 2)  # from epoch 10 of 20
    return [
        replace(base, name=key, method=variant.build(base.scale, methods, half)) for key, variant in variants.items()
    ]


def _bases(network: Network, domain: str) -> "tuple[Recipe, ...]":
    """Plain training with one domain held out, at the paper's, the small and the tiny scale."""
    from ...optim import SGD, Steps
    from ..data import Pacs, SyntheticDomains
    from ..methods import CrossEntropy
    from ..models import ResNet
    from ..recipe import Recipe

    paper = Recipe(
        name="erm",
        data=Pacs(target=domain, mirror_batches=True),
        model=ResNet(depth=network.depth),
        method=CrossEntropy(),
        optimizer=SGD(lr=0.01, weight_decay=5e-4),
        schedule=Steps(milestones=(15,), factor=0.1),
        epochs=20,
        batch_size=64,
        drop_last=True,
        selection="best-val",
        weights=network.weights,
    )
    # Small: all images at 64 px, a small network of the same family trained from scratch with a higher learning rate;
    # batches without their mirror images (half of the images are mirrored instead), which leaves time for more epochs;
    # the learning rate drops for the last two, and the last, smaller batch of an epoch is kept.
    small = replace(
        paper,
        data=Pacs(target=domain, size=64),
        model=ResNet(depth=10, stem="half", width=16),
        optimizer=SGD(lr=0.05, weight_decay=5e-4),
        schedule=Steps(milestones=(5,), factor=0.1, warmup=0.5),
        epochs=7,
        drop_last=False,
        weights="",
    )
    tiny = replace(
        paper,
        data=SyntheticDomains(target=domain, mirror_batches=True),
        model=ResNet(depth=10, stem="half", width=8),
        optimizer=SGD(lr=0.05, weight_decay=5e-4),
        epochs=3,
        batch_size=16,
        weights="",
    )
    return at_scales(paper, small=small, tiny=tiny)


def _other_bases() -> "tuple[Recipe, Recipe]":
    """For example: opl train domains-rsc-opl --data.root FOLDER --data.target NAME --data.num-classes N."""
    from ..data import DomainFolder

    paper, _, tiny = _bases(RESNET50, "photo")
    return replace(paper, data=DomainFolder(mirror_batches=True)), tiny
