"""Table 3, label noise, 40 %. Cost of one seed, the paper's figures and ours: RESULTS.md, table 3.

Cross-entropy (CE) and the truncated loss (TL), each with and without OPL. Network and schedule are those of the code
released with OPL: ResNet-18, SGD with learning rate 0.01, 120 epochs with drops at 40 and 80 and pruning from the 40th
on (CIFAR-10), or 150 epochs with drops at 80 and 120 and pruning from the 80th on (CIFAR-100). Differences here: a
tenth of the noisy training set is held out, and the model that prunes is the one that is best on it; a pruning epoch
also trains; all methods with the same seed have the same wrong labels, and other seeds have other wrong labels.

`-peeking` selects the pruning model on the *test set*, as the released code does. `-code` uses the released weight and
gamma, 0.1 and 2; the paper's text says 1 and 0.5. `-left-out` excludes pruned samples from OPL's pairs. `uniform` noise
replaces a label by any other class, `pair` by the next class (the paper's code), `class` by a similar class (its text).

The small scale trains the fast network for 12 epochs. On CIFAR-10 pruning starts after 6 epochs, with k = 0.3; on
CIFAR-100 after 9 epochs of cross-entropy, with k = 0.05: larger k would prune most correct labels. It is repeated every
second epoch. The plan, written before any run, is docs/study.md, section "Table 3". CIFAR-10 is read from JPEG copies.

Two items beyond the paper share recipes and runs; at the small scale they have MNIST only, because its runs are short.
`table-3-beyond` has both weights of OPL, with pruned samples in its pairs or not. `study-noise` compares the winner of
the study with the paper's OPL, where OPL lost.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal

from ..item import MINUTE, Cost, Item, Measure, Row
from ..scales import Scale
from . import study
from .variant import Build, Variant, item_of_runs, with_methods

if TYPE_CHECKING:
    from ..methods import TruncatedLq
    from ..recipe import Recipe
    from ..types import LabelNoise

CIFAR10, CIFAR100, MNIST = "cifar10", "cifar100", "mnist"
BENCHMARKS = {CIFAR10: "CIFAR-10", CIFAR100: "CIFAR-100", MNIST: "MNIST"}
UNIFORM = "uniform"
NOISES: "dict[str, tuple[str, Callable[[ModuleType], LabelNoise]]]" = {
    UNIFORM: ("uniform", lambda data: data.UniformNoise(0.4)),
    "pair": ("pair-flip", lambda data: data.PairFlip(0.4)),
    "class": ("class-dependent", lambda data: data.ClassDependent(0.4)),
}
# The paper's numbers with uniform and with class-dependent noise. The latter are shown for both readings: the paper's
# text (GCE's class maps) and its code (pair-flip).
PAPER_TL = {CIFAR10: (87.62, 82.28), CIFAR100: (62.64, 47.66)}
PAPER_TL_OPL = {CIFAR10: (88.45, 87.02), CIFAR100: (65.62, 53.94)}
WORDS, CODE = (1.0, 0.5), (0.1, 2.0)  # OPL's weight and gamma, in the paper's text and in its code


LARGE: tuple[Scale, ...] = ("paper", "tiny")  # of variants that are not run on MNIST and at the small scale


def _tl(opl: tuple[float, float] | None = None, **changes: Any) -> Build:
    """The truncated loss with the given changes, and with OPL if its weight and gamma are given."""
    return lambda m, tl: replace(tl, auxiliary=(m.auxiliaries.OPL(*opl),) if opl else (), **changes)


VARIANTS = {
    "ce": Variant("CE", lambda m, tl: m.CrossEntropy()),
    "ce-opl": Variant("CE+OPL", lambda m, tl: m.CrossEntropyOPL(*WORDS), "ce"),
    "tl": Variant("TL", _tl(), paper=PAPER_TL),
    "tl-opl": Variant("TL+OPL", _tl(WORDS), "tl", PAPER_TL_OPL),
    "ce-opl-code": Variant("CE+OPL, weight 0.1, gamma 2", lambda m, tl: m.CrossEntropyOPL(*CODE), "ce", scales=LARGE),
    "tl-opl-code": Variant("TL+OPL, weight 0.1, gamma 2", _tl(CODE), "tl", PAPER_TL_OPL, LARGE),
    "tl-opl-left-out": Variant("TL+OPL, pruned samples in no pair", _tl(WORDS, leave_out=True), "tl", scales=LARGE),
    "tl-opl-code-left-out": Variant(
        "TL+OPL, weight 0.1, gamma 2, pruned samples in no pair", _tl(CODE, leave_out=True), "tl", scales=LARGE
    ),
    "tl-peeking": Variant(
        "TL, pruned by the TEST set as released", _tl(select="test-as-released"), paper=PAPER_TL, scales=LARGE
    ),
    "tl-opl-peeking": Variant(
        "TL+OPL as released (0.1, 2), pruned by the TEST set",
        _tl(CODE, select="test-as-released"),
        "tl-peeking",
        PAPER_TL_OPL,
        LARGE,
    ),
}
"""The methods take `opl.experiments.methods` and the truncated loss with the pruning schedule of the data set."""
BEYOND = ("tl", "tl-opl", "tl-opl-code", "tl-opl-left-out", "tl-opl-code-left-out")
STUDIED = ("tl", "tl-opl")


def name_of(dataset: str, noise: str, key: str) -> str:
    """The name of a recipe: data set, kind of noise, variant."""
    return f"{dataset}-noisy-{noise}-{key}"


def _row(dataset: str, noise: str, key: str) -> Row:
    variant = VARIANTS[key]
    numbers = variant.paper.get(dataset)
    scales = tuple(scale for scale in variant.scales if scale != "tiny" or noise == UNIFORM)
    return variant.row(
        f"{BENCHMARKS[dataset]}, {NOISES[noise][0]}, ",
        key,
        partial(name_of, dataset, noise),
        paper={"test/top1": numbers[noise != UNIFORM]} if numbers else {},
        scales=("small",) if dataset == MNIST else scales,
        needs=CIFAR10 if dataset == CIFAR10 else "",
        seeds=0 if dataset == MNIST else 2,
    )


def keys_of(dataset: str) -> tuple[str, ...]:
    """The keys of the variants that table 3 runs on a data set."""
    return tuple(key for key, variant in VARIANTS.items() if "small" in variant.scales or dataset != MNIST)


TABLE_3 = Item(
    name="table-3",
    title="Label noise, 40 %",
    task="label noise",
    dataset="cifar10, cifar100; small: mnist too",
    metrics={
        "test/top1": "last epoch %",
        "selected/top1": "selected %",
        "noise/memorized": "wrong labels memorized %",
        "noise/train": "wrong labels",
    },
    rows=tuple(_row(dataset, noise, key) for dataset in BENCHMARKS for noise in NOISES for key in keys_of(dataset)),
    what="method",
    costs={"small": Cost(9 * MINUTE)},  # MNIST takes half a minute
    note="The paper's TL rows equal the rows of the GCE paper (ResNet-34, other selection); its OPL rows are of "
    "ResNet-18. It says class-dependent and its code flips pairs: its numbers stand beside both. Selected: by held-out "
    "images, labels as wrong as in training. Memorized: the share of wrong training labels that the last weights "
    "predict.",
    setting="ResNet-18, all classes, epochs not named (code: 120 and 150)",
    compared=("test/top1", "selected/top1"),
    measures=(Measure(("noise",), ("noise",)),),
)


WINNER_NAMES = {
    name_of(dataset, noise, "tl-opl"): study.name_of(name_of(dataset, noise, "tl"))
    for dataset in BENCHMARKS
    for noise in NOISES
}
"""The recipes with OPL that the study repeats with its winner, and their new names."""


def _extra_row(dataset: str, noise: str, key: str) -> Row:
    """A row beyond the paper: without its numbers, at the small scale for MNIST alone."""
    row = _row(dataset, noise, key)
    scales = tuple(scale for scale in row.scales if scale != "small" or dataset == MNIST)
    return replace(row, paper={}, scales=scales)


def _studied_rows(dataset: str, noise: str) -> tuple[Row, Row, Row]:
    without, opl = (_extra_row(dataset, noise, key) for key in STUDIED)
    return without, opl, study.winner_row(opl, WINNER_NAMES)


TABLE_3_BEYOND = item_of_runs(
    TABLE_3,
    "table-3-beyond",
    "Label noise, 40 %: OPL's weight, and pruned samples in its pairs or not (not in the paper)",
    tuple(_extra_row(dataset, noise, key) for dataset in BENCHMARKS for noise in NOISES for key in BEYOND),
)
STUDY_NOISE = item_of_runs(
    TABLE_3,
    "study-noise",
    "Label noise, 40 %: the winner of the study vs the paper's OPL (not in the paper)",
    tuple(row for dataset in BENCHMARKS for noise in NOISES for row in _studied_rows(dataset, noise)),
    note="The winner is compared with OPL.",
    headline=WINNER_NAMES[name_of(MNIST, UNIFORM, "tl-opl")],
)
ITEMS = (TABLE_3, TABLE_3_BEYOND, STUDY_NOISE)


def recipes() -> tuple["Recipe", ...]:
    """Every variant of every data set, noise and scale, with or without a row, and those of the study."""
    from .. import data

    made: list[Recipe] = []
    for base, truncated in _bases():
        variants = {key: VARIANTS[key] for key in (*keys_of(base.name), *BEYOND)}
        for kind, (_, noise) in NOISES.items():
            name = partial(name_of, base.name, kind)
            made += with_methods(replace(base, noise=noise(data)), variants, name, truncated)
    return *made, *study.with_winner(made, WINNER_NAMES)


def _bases() -> "Iterator[tuple[Recipe, TruncatedLq]]":
    """A noise-free recipe for each data set and scale, named after the data set, and its truncated loss."""
    from ..methods import TruncatedLq

    cifar10, cifar100 = _paper_bases()
    small10, small100, mnist = _small_bases(cifar10, cifar100)
    yield cifar10, TruncatedLq(start=39, every=10)
    yield cifar100, TruncatedLq(start=79, every=10)
    yield small10, TruncatedLq(k=0.3, start=6, every=2)
    yield small100, TruncatedLq(k=0.05, start=9, every=2, warmup=9)
    yield mnist, TruncatedLq(start=8, every=4)
    yield _tiny(cifar10, "cifar10"), TruncatedLq(start=4, every=1)
    yield _tiny(cifar100, "cifar100"), TruncatedLq(start=4, every=1)


def _paper_bases() -> "tuple[Recipe, Recipe]":
    from ...optim import SGD, Steps
    from ..data import Cifar10, Cifar100
    from ..methods import CrossEntropy
    from ..models import ResNet
    from ..recipe import Recipe

    cifar10 = Recipe(
        name=CIFAR10,
        data=Cifar10(val=5000),
        model=ResNet(depth=18, stem="cifar"),
        method=CrossEntropy(),
        optimizer=SGD(lr=0.01, weight_decay=1e-4),
        schedule=Steps(milestones=(40, 80), factor=0.1),
        epochs=120,
        selection="both",
    )
    schedule = Steps(milestones=(80, 120), factor=0.1)
    data = Cifar100(val=5000, jitter=0.0)
    return cifar10, replace(cifar10, name=CIFAR100, data=data, schedule=schedule, epochs=150)


def _small_bases(cifar10: "Recipe", cifar100: "Recipe") -> "tuple[Recipe, Recipe, Recipe]":
    """CIFAR-10 and CIFAR-100 with the fast network, all classes and images; MNIST with a small network."""
    from ...optim import SGD, Cosine, Muon, Triangle
    from ..data import FastCifar10, FastCifar100, Mnist
    from ..models import FastNet, MnistNet

    small10 = replace(
        cifar10,
        data=FastCifar10(val=2000),
        model=FastNet(half=True),
        optimizer=Muon(),
        schedule=Triangle(),
        epochs=12,
        batch_size=1024,
        precision="bf16-mixed",
        scale="small",
    )
    small100 = replace(small10, name=cifar100.name, data=FastCifar100(val=2000))
    mnist = replace(
        cifar10,
        name=MNIST,
        data=Mnist(val=1000, per_class=300),
        model=MnistNet(widths=(16, 32, 32, 32)),
        optimizer=SGD(lr=0.1, weight_decay=1e-4),
        schedule=Cosine(warmup=1),
        epochs=20,
        scale="small",
    )
    return small10, small100, mnist


def _tiny(base: "Recipe", like: Literal["cifar10", "cifar100"]) -> "Recipe":
    """Images of ten classes that a small network learns in a few epochs, so that pruning has something to go by."""
    from ...optim import SGD
    from ..data import Synthetic
    from ..models import MnistNet

    return replace(
        base,
        data=Synthetic(like=like, classes=10, pixels=16, val=40),
        model=MnistNet(widths=(16, 32, 32, 64)),
        optimizer=SGD(lr=0.05, weight_decay=1e-4),
        epochs=6,
        batch_size=16,
        scale="tiny",
    )
