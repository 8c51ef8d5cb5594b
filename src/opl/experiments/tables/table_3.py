"""Table 3, label noise: cross-entropy and the truncated loss with and without OPL, 40 % of the labels wrong.

Beyond the paper: both weights of OPL, and pruned samples in its pairs or not.
"""

from dataclasses import replace

from ..item import Item, Measure, Row

SETS = {"cifar10": "CIFAR-10", "cifar100": "CIFAR-100", "mnist": "MNIST"}
NOISES = {"uniform": "uniform", "pair": "pair-flip", "class": "class-dependent"}
# The paper's class-dependent numbers stand beside both readings: its words (GCE's maps) and its code (pair-flip).
PAPER = {
    "cifar10": {"tl": (87.62, 82.28), "tl-opl": (88.45, 87.02)},
    "cifar100": {"tl": (62.64, 47.66), "tl-opl": (65.62, 53.94)},
}
LABELS = {  # what each is called, what it is compared with, whose numbers of the paper it has
    "ce": ("CE", "", ""),
    "ce-opl": ("CE+OPL", "ce", ""),
    "tl": ("TL", "", "tl"),
    "tl-opl": ("TL+OPL", "tl", "tl-opl"),
    "ce-opl-code": ("CE+OPL, weight 0.1, gamma 2", "ce", ""),
    "tl-opl-code": ("TL+OPL, weight 0.1, gamma 2", "tl", "tl-opl"),
    "tl-opl-left-out": ("TL+OPL, pruned samples in no pair", "tl", ""),
    "tl-opl-code-left-out": ("TL+OPL, weight 0.1, gamma 2, pruned samples in no pair", "tl", ""),
    "tl-peeking": ("TL, pruned by the TEST set as released", "", "tl"),
    "tl-opl-peeking": ("TL+OPL as released (0.1, 2), pruned by the TEST set", "tl-peeking", "tl-opl"),
}
FOUR = ("ce", "ce-opl", "tl", "tl-opl")
BEYOND = ("tl", "tl-opl", "tl-opl-code", "tl-opl-left-out", "tl-opl-code-left-out")


def _row(place: str, noise: str, name: str) -> Row:
    label, baseline, paper = LABELS[name]
    numbers = PAPER.get(place, {}).get(paper)
    small = ("small",) if place == "mnist" or (place == "cifar100" and name in FOUR) else ()
    tiny = ("tiny",) if place == "cifar100" and noise == "uniform" else ()
    return Row(
        f"{SETS[place]}, {NOISES[noise]}, {label}",
        f"{place}-noisy-{noise}-{name}",
        {"test/top1": numbers[noise != "uniform"]} if numbers else {},
        f"{place}-noisy-{noise}-{baseline}" if baseline else "",
        (*(("paper",) if place != "mnist" else ()), *small, *tiny),
    )


ITEM = Item(
    name="table-3",
    title="Label noise, 40 %",
    dataset="cifar10, cifar100; small: cifar100 (two super-classes), mnist",
    metrics={
        "test/top1": "last epoch %",
        "selected/top1": "selected %",
        "noise/memorized": "wrong labels learned %",
        "noise/train": "wrong labels",
    },
    rows=tuple(
        _row(place, noise, name)
        for place in SETS
        for noise in NOISES
        for name in (LABELS if place != "mnist" else FOUR)
    ),
    what="method",
    cost="small: 100 s (CIFAR-100) or half a minute (MNIST) on 1 core",
    note="The paper's TL rows equal those of the GCE paper (ResNet-34, other selection); its OPL rows are ResNet-18's. "
    "It says class-dependent and its code flips pairs: its numbers stand beside both. Selected: by held-out images, "
    "labels as wrong as in training. Learned: of the wrong training labels, those that the last weights give too.",
    compared=("test/top1", "selected/top1"),
    measures=(Measure(("noise",), ("noise",)),),
)


def _beyond(place: str, noise: str, name: str) -> Row:
    """At small scale on MNIST alone, of which a run is short."""
    row = _row(place, noise, name)
    return replace(row, paper={}, scales=tuple(each for each in row.scales if each != "small" or place == "mnist"))


MORE = replace(
    ITEM,
    name="table-3-beyond",
    title="Label noise, 40 %: OPL's weight, and pruned samples in its pairs or not (not in the paper)",
    rows=tuple(_beyond(place, noise, name) for place in SETS for noise in NOISES for name in BEYOND),
    note="",
    home="table-3",
)
