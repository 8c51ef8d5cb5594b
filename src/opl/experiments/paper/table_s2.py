"""Table S2, NeuralScale. Cost of one seed, the paper's figures and ours: RESULTS.md, table s2.

NeuralScale searches the widths of a network: it removes filters while training, fits the width of every layer as a
power law of the number of parameters, rebuilds the network at the budget, and repeats; then it trains the network of
the last iteration from scratch. Here every iteration of the search is a run (`-search-1`, `-search-2`, ...), each after
the one before, and the final training a run after the last.

At the paper's scale the search is skipped: the widths are those of the fits published with NeuralScale, after 15
iterations (`--model.source search --after NAME-search-15` takes the widths of your search). The paper gives no
ratio, which sets the budget: here it is 1; `--model.ratio` changes it. It does not say either whether OPL took part in
the search; here it does not. The published code reports the best test accuracy of all epochs and normalizes CIFAR-100
by the statistics of CIFAR-10; here the last epoch is tested, and the statistics are those of CIFAR-100. Rebuilt layers
of ResNet-18 have at least 10 filters, where the published search adds 10 filters to a layer with fewer.

The small scale searches twice, at a quarter (VGG-11) or an eighth (ResNet-18) of the widths and on 20 classes, and
trains what it finds, in bf16, with a higher learning rate for the few epochs (chosen after trials with seed 0, whose
test accuracy was seen: RESULTS.md). There layers are so narrow that some keep all their filters, so records begin at
the latest when half of all filters are gone.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..item import MINUTE, Cost, Item, Revision, Row
from .variant import at_scales, revised_d

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..recipe import Recipe
    from ..types import Model
    from ..widths import ScaledNetwork


@dataclass(frozen=True)
class Network:
    """A network of the table: its label, and the paper's accuracy without and with OPL."""

    label: str
    paper: tuple[float, float]
    ratio: float
    """The budget at the small scale."""


NETWORKS: "dict[ScaledNetwork, Network]" = {
    "resnet18": Network("ResNet-18", (77.59, 77.81), 0.125),
    "vgg11": Network("VGG-11", (67.42, 67.69), 0.25),
}
ITERATIONS: dict[str, int] = {"paper": 15, "small": 2, "tiny": 2}


def name_of(network: str, ending: str) -> str:
    """The name of a recipe: `ce`, `opl` or `search-1`."""
    return f"cifar100-neuralscale-{network}-{ending}"


def _rows(key: str, network: Network) -> tuple[Row, Row]:
    ce, opl = (name_of(key, method) for method in ("ce", "opl"))
    return (
        Row(network.label, ce, {"test/top1": network.paper[0]}),
        Row(f"{network.label}+OPL", opl, {"test/top1": network.paper[1]}, baseline=ce),
    )


TABLE_S2 = Item(
    name="table-s2",
    title="CIFAR-100, networks with widths by NeuralScale",
    dataset="cifar100",
    metrics={"test/top1": "top-1 %", "test/s": "s", "test/d": "d"},
    rows=tuple(row for key, network in NETWORKS.items() for row in _rows(key, network)),
    what="network",
    costs={"small": Cost(4 * MINUTE)},  # VGG-11 takes 3 min; each of two searches 1 to 3 min
    note="The paper's ratio is not given, and neither is whether OPL took part in the search: here it did not.",
    setting="100 classes, 300 epochs, ratio not given",
    figure="layer_widths",
    revisions=(
        Revision(
            "2026-11-18T05:00:00Z",
            "their convolutions were initialized by PyTorch's default, not He-normal by fan-out as in NeuralScale.",
            tuple(name_of("resnet18", method) for method in ("ce", "opl")),
        ),
        revised_d(name_of("resnet18", method) for method in ("ce", "opl")),
    ),
    others=tuple(
        name_of(key, f"search-{number}") for key in NETWORKS for number in range(1, max(ITERATIONS.values()) + 1)
    ),
)
ITEMS = (TABLE_S2,)


def recipes() -> tuple["Recipe", ...]:
    """The recipes of the rows, and of the searches before them."""
    from ..methods import CrossEntropyOPL

    made = []
    for network in NETWORKS:
        for base in _finals(network):
            made += [base, replace(base, name=name_of(network, "opl"), method=CrossEntropyOPL())]
        made += _searches(network)
    return tuple(made)


def _finals(network: "ScaledNetwork") -> "tuple[Recipe, ...]":
    """Cross-entropy at each scale."""
    from ...optim import SGD, OneCycle, Steps
    from ..data import Cifar100, Synthetic
    from ..methods import CrossEntropy
    from ..models import NeuralScale
    from ..recipe import Recipe

    paper = Recipe(
        name=name_of(network, "ce"),
        data=Cifar100(val=0, jitter=0.0),
        model=NeuralScale(network=network),
        method=CrossEntropy(),
        optimizer=SGD(lr=0.1, momentum=0.5, weight_decay=5e-4),
        schedule=Steps(milestones=(99, 199, 249), factor=0.1),  # the source counts epochs from 1
        epochs=300,
        eval_every=10,
        channels_last=False,  # oneDNN crashes in the channels-last gradient of some widths
    )
    # Small: a quarter or an eighth of the widths, 20 classes, one cycle of the learning rate, in bf16.
    small = replace(
        paper,
        data=Cifar100(classes=20, val=0, jitter=0.0),
        model=_model(network, NETWORKS[network].ratio),
        optimizer=SGD(lr=0.4, momentum=0.5, weight_decay=5e-4),
        schedule=OneCycle(),
        epochs=12,
        batch_size=64,
        precision="bf16-mixed",
        channels_last=True,
        after=name_of(network, f"search-{ITERATIONS['small']}"),
    )
    tiny = replace(
        small,
        data=Synthetic(like="cifar100", classes=10, rows=160, val=0, test=40),
        model=_model(network, 0.0625),
        optimizer=paper.optimizer,
        epochs=2,
        batch_size=16,
        precision="32-true",
        channels_last=False,
        after=name_of(network, f"search-{ITERATIONS['tiny']}"),
    )
    return at_scales(paper, small=small, tiny=tiny)


def _model(network: "ScaledNetwork", ratio: float, *, gates: bool = False) -> "Model":
    from ..models import NeuralScale

    return NeuralScale(network=network, ratio=ratio, source="search", gates=gates)


def _searches(network: "ScaledNetwork") -> "Iterator[Recipe]":
    """The iterations of the search at each scale."""
    from ...optim import SGD, Staircase
    from ..methods import Pruning

    paper, small, tiny = _finals(network)
    optimizer = SGD(lr=0.1, momentum=0.5, weight_decay=5e-4)
    bases = (
        replace(
            paper,
            model=_model(network, 1.0, gates=True),
            method=Pruning(),
            optimizer=optimizer,
            schedule=Staircase(hold=9),
            epochs=120,
            batch_size=256,
        ),
        replace(
            small,
            model=_model(network, NETWORKS[network].ratio, gates=True),
            method=Pruning(warmup=2, every=5, filters=round(16 * NETWORKS[network].ratio), latest=0.5),
            optimizer=optimizer,
            schedule=Staircase(hold=2, every=2),
            epochs=10,
        ),
        replace(
            tiny,
            model=_model(network, 0.0625, gates=True),
            method=Pruning(warmup=1, every=1, filters=5),
            optimizer=optimizer,
            schedule=Staircase(hold=1, every=2),
            epochs=4,
        ),
    )
    for base in bases:
        names = [name_of(network, f"search-{index + 1}") for index in range(ITERATIONS[base.scale])]
        for name, before in zip(names, ("", *names), strict=False):
            yield replace(base, name=name, after=before)
