"""Table 5, PACS: RSC with and without OPL, each domain held out in turn. Cost and figures: RESULTS.md, table 5.

The protocol is that of RSC's released code: ImageNet weights, 222 px, batches of 64 from all source domains together,
each with its mirror image, without the last, smaller batch of an epoch; 20 epochs, a tenth of the learning rate for the
last five (it steps the schedule before each epoch); weights are selected on the validation images of the source
domains. One difference here: images are resized to 222 px before cropping, not after (the files have 227 px). Plain
training (ERM), which is not in the paper, differs only in the method; it also uses mirror images.

No code was released for RSC with OPL. Here OPL is applied to the pooled features after masking, the same features that
the classifier sees, for all images of a batch, with the paper's weight 1 and gamma 0.5 and with class labels only. The
paper does not name its network; its RSC row is the published one of ResNet-50, except for photo.

The small scale fine-tunes EfficientNet-Lite0 from its ImageNet weights at 96 px, for 3 epochs of 4,000 source images;
the weights of the last epoch are tested on 1,000 images of the target. Every seed draws its own images.

Three items that are not in the paper share its runs. `study-pretrained` compares five losses at this length and at
twice this length; `study-few-images` fine-tunes with 10 and 50 images per class of all domains together. Their plans,
written before any run, are in docs/study.md. `study-domains` compares the winner of the first study with the paper's
OPL, in ERM and RSC, with a small network that is trained from scratch at 64 px.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from ..item import MINUTE, Average, Cost, Item, Quoted, Row
from ..scales import SCALES, Scale
from . import study
from .variant import Variant, at_scales, item_of_runs, with_methods

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


RESNET50 = Network("", "", 50, "timm/resnet50.tv_in1k", ("paper", "tiny"))
RESNET18 = Network("resnet18-", "ResNet-18 ", 18, "timm/resnet18.tv_in1k", ("paper",))
LITE0 = Network("lite0-", "", 0, "efficientnet-lite0", ("small",))
NETWORKS = (RESNET50, RESNET18, LITE0)
SIZE, TRAIN, TEST = 96, 4000, 1000  # pixels and images at the small scale
EPOCHS, LONG = 3, "-long"

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
    """The row of a variant; the paper's numbers stand beside ResNet-50 and, at the small scale, EfficientNet-Lite0."""
    numbers = dict(zip(COLUMNS, PAPER.get(key, ()), strict=False)) if network is not RESNET18 else {}
    label = TARGETS[target][0] if target in TARGETS else target
    name = partial(name_of, target, network)
    paper = {"test/top1": numbers[target]} if numbers else {}
    return VARIANTS[key].row(f"{network.label}{label} ", key, name, paper=paper, scales=network.scales)


def _average(row: Row) -> Average:
    """The mean of a row over the targets, whose names it has with `average` in place of the target."""
    return Average(row, tuple(row.recipe.replace("-average-", f"-{target}-") for target in TARGETS))


TABLE_5 = Item(
    name="table-5",
    task="domain generalization",
    title="PACS, each domain left out of training in turn",
    dataset="pacs",
    metrics={"test/top1": "top-1 %", "val/top1": "source validation %", "test/s": "s", "test/d": "d"},
    rows=tuple(_row(network, target, key) for network in NETWORKS for target in TARGETS for key in VARIANTS),
    what="target and method",
    costs={"small": Cost(2 * MINUTE)},
    note="Paper scale: weights are chosen by validation images of the source domains; small: the last epoch is tested "
    "on 1,000 images of the target. The paper's RSC row is copied, but for photo.",
    setting="network and epochs not named (RSC's row: ResNet-50 with ImageNet weights)",
    quoted=tuple(
        Quoted(f"{label} {method}", {"test/top1": numbers[column]})
        for column, label in enumerate((*(label for label, _ in TARGETS.values()), "average"))
        for method, numbers in QUOTED.items()
    ),
    averages=tuple(_average(_row(network, "average", key)) for network in NETWORKS for key in VARIANTS),
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
    opl = replace(_row(RESNET50, target, key), paper={}, baseline="", scales=SCALES)
    return opl, study.winner_row(opl, WINNER_NAMES)


STUDY_DOMAINS = item_of_runs(
    TABLE_5,
    "study-domains",
    "PACS: the winner of the study vs the paper's OPL (not in the paper)",
    tuple(row for target in TARGETS for key in STUDIED for row in _studied_rows(target, key)),
    seeds=2,
    note="Weights are chosen by validation images of the source domains. The winner is compared with OPL.",
    averages=tuple(_average(row) for key in STUDIED for row in _studied_rows("average", key)),
    headline=next(iter(WINNER_NAMES.values())),
)

ARMS = {
    "erm": Variant("CE", VARIANTS["erm"].method),
    "erm-smooth": Variant("CE, label smoothing 0.1", lambda m, half: m.CrossEntropy(label_smoothing=0.1), "erm"),
    "erm-opl": Variant("CE+OPL, weight 1, gamma 0.5 (paper)", VARIANTS["erm-opl"].method, "erm"),
    "erm-opl-0.1-1": Variant("CE+OPL, weight 0.1, gamma 1", lambda m, half: m.CrossEntropyOPL(0.1, 1.0), "erm"),
    "erm-opl-0.1-2": Variant("CE+OPL, weight 0.1, gamma 2", lambda m, half: m.CrossEntropyOPL(0.1, 2.0), "erm"),
}
"""The losses of `study-pretrained` and `study-few-images`."""
LENGTHS = {"": EPOCHS, LONG: 2 * EPOCHS}  # epochs, by the ending of a name
FEW = {10: 60, 50: 20}  # images per class, and epochs


def _long_name(target: str, length: str, key: str) -> str:
    return name_of(target, LITE0, key + length)


def few_name(images: int, key: str) -> str:
    """The name of a recipe that is trained on a number of images per class."""
    return f"pacs-few-{images}-{key}"


def _arm_row(target: str, key: str, length: str) -> Row:
    """The row of an arm; at the tiny scale there is one target."""
    return ARMS[key].row(
        f"{TARGETS[target][0] if target in TARGETS else target}, {LENGTHS[length]} epochs, ",
        key,
        partial(_long_name, target, length),
        scales=("small", "tiny") if target == "photo" else ("small",),
    )


STUDY_PRETRAINED = item_of_runs(
    TABLE_5,
    "study-pretrained",
    "PACS, five losses from ImageNet weights, two lengths of training (not in the paper)",
    tuple(_arm_row(target, key, length) for length in LENGTHS for target in TARGETS for key in ARMS),
    costs={"small": Cost(4 * MINUTE)},
    note="Planned in docs/study.md before the runs. The last epoch is tested on 1,000 images of the target.",
    averages=tuple(_average(_arm_row("average", key, length)) for length in LENGTHS for key in ARMS),
    headline=name_of("art", LITE0, "erm-opl"),
)
STUDY_FEW_IMAGES = item_of_runs(
    TABLE_5,
    "study-few-images",
    "PACS as 7 classes, fine-tuning with 10 and 50 images per class (not in the paper)",
    tuple(
        arm.row(f"{images} images, ", key, partial(few_name, images), scales=("small", "tiny"))
        for images in FEW
        for key, arm in ARMS.items()
    ),
    task="fine-tuning with few images",
    metrics={"test/top1": "top-1 %", "test/s": "s", "test/d": "d"},
    what="images per class and loss",
    seeds=5,
    costs={"small": Cost(90)},
    note="Planned in docs/study.md before the runs. The last epoch is tested on 1,014 images of all domains.",
    headline=few_name(10, "erm-opl"),
)
ITEMS = (TABLE_5, STUDY_DOMAINS, STUDY_PRETRAINED, STUDY_FEW_IMAGES)


def recipes() -> tuple["Recipe", ...]:
    """The recipes of all items and, for ResNet-50, of `RELATIVES`; also those for any other data set with domains."""
    made = [
        recipe
        for network in (RESNET50, RESNET18)
        for target, (_, domain) in TARGETS.items()
        for base in _bases(network, domain)
        for recipe in _with_methods(
            base, VARIANTS | (RELATIVES if network is RESNET50 else {}), partial(name_of, target, network)
        )
    ]
    others = [
        recipe
        for base in _other_bases()
        for recipe in _with_methods(base, VARIANTS | RELATIVES, lambda key: f"domains-{key}")
    ]
    return *made, *others, *study.with_winner(made, WINNER_NAMES), *_fine_tuned(), *_few_images()


def _fine_tuned() -> "Iterator[Recipe]":
    """The recipes of EfficientNet-Lite0: those of table 5, and all arms of the study at both lengths."""
    for target, (_, domain) in TARGETS.items():
        for base in _pretrained_bases(domain):
            for ending, epochs in LENGTHS.items():
                name = partial(_long_name, target, ending)
                yield from _with_methods(replace(base, epochs=epochs), ARMS if ending else VARIANTS | ARMS, name)


def _few_images() -> "Iterator[Recipe]":
    from ..data import Pacs, Synthetic

    small, tiny = _pretrained_bases("photo")
    for images, epochs in FEW.items():
        data = Pacs(target="all", size=SIZE, split_seed=-1, per_class=images)
        synthetic = Synthetic(like="cifar10", classes=7, rows=7 * images // 5, val=0, test=42)
        for base in (
            replace(small, data=data, epochs=epochs, eval_every=epochs),
            replace(tiny, data=synthetic, epochs=epochs // 20, eval_every=1),
        ):
            yield from _with_methods(base, ARMS, partial(few_name, images))


def _pretrained_bases(domain: str) -> "tuple[Recipe, Recipe]":
    """Plain fine-tuning of EfficientNet-Lite0 with one domain held out, and its tiny version with another network."""
    from ...optim import AdamW, OneCycle
    from ..data import Pacs
    from ..models import EfficientNetLite0

    paper, _, tiny = _bases(RESNET50, domain)
    schedule = OneCycle()
    small = replace(
        paper,
        data=Pacs(target=domain, size=SIZE, split_seed=-1, train_images=TRAIN, test_images=TEST),
        model=EfficientNetLite0(),
        optimizer=AdamW(lr=7e-4),
        head_lr_mult=30 / 7,
        schedule=schedule,
        epochs=EPOCHS,
        batch_size=32,
        selection="last",
        eval_every=EPOCHS,
        weights=LITE0.weights,
        scale="small",
    )
    return small, replace(tiny, optimizer=small.optimizer, schedule=schedule, selection="last")


def _with_methods(base: "Recipe", variants: Mapping[str, Variant], name: Callable[[str], str]) -> "list[Recipe]":
    return with_methods(base, variants, name, -(-base.epochs // 2))  # from epoch 10 of 20


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
