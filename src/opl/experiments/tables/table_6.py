"""Table 6, few-shot learning: RFS and SKD with and without OPL, and what the paper does not have beside them."""

from ..evaluation.few_shot.settings import FewShot
from ..item import Item, Measure, Row

SETS = {"cifar-fs": "CIFAR-FS", "mini-imagenet": "miniImageNet", "tiered-imagenet": "tieredImageNet"}
SHOTS = (FewShot(shot=1), FewShot(shot=5))
PAPER = {
    "cifar-fs": {"rfs": (71.45, 85.95), "rfs-opl": (73.02, 86.12), "skd": (74.50, 88.00), "skd-opl": (74.94, 88.06)},
    "mini-imagenet": {
        "rfs": (62.02, 79.64), "rfs-opl": (63.10, 79.87), "skd": (65.93, 83.15), "skd-opl": (66.90, 83.23)
    },
    "tiered-imagenet": {
        "rfs": (69.74, 84.41), "rfs-opl": (70.20, 85.01), "skd": (71.69, 86.66), "skd-opl": (72.10, 86.70)
    },
}  # fmt: skip
LABELS = {  # what each is called, and what it is compared with
    "rfs": ("RFS", ""),
    "rfs-opl": ("RFS+OPL", "rfs"),
    "skd": ("SKD Gen-0", ""),
    "skd-opl": ("SKD Gen-0+OPL", "skd"),
    "rfs-script": ("RFS, schedule of OPL's script", ""),
    "rfs-script-opl": ("RFS+OPL, schedule of OPL's script", "rfs-script"),
    "rfs-distilled": ("RFS distilled", ""),
    "rfs-opl-distilled": ("RFS+OPL distilled", "rfs-distilled"),
    "rfs-distilled-2": ("RFS distilled twice", ""),
    "rfs-opl-distilled-2": ("RFS+OPL distilled twice", "rfs-distilled-2"),
    "skd-gen1": ("SKD Gen-1", ""),
    "skd-opl-gen1": ("SKD Gen-1+OPL", "skd-gen1"),
}


def measure(*protocols: FewShot) -> Measure:
    """The shots of one kind of images, in one go."""
    noise = ("--noise", f"{protocols[0].noise:g}") if protocols[0].noise else ()
    shots = [str(each.shot) for each in protocols]
    return Measure(("episodes", "--shot", *shots, *noise), tuple(f"episodes-{each.name}" for each in protocols))


def _row(place: str, name: str) -> Row:
    label, baseline = LABELS[name]
    numbers = PAPER[place].get(name)
    small = place == "cifar-fs" and name in PAPER[place]
    return Row(
        f"{SETS[place]} {label}",
        f"{place}-{name}",
        dict(zip((each.metric for each in SHOTS), numbers, strict=True)) if numbers else {},
        f"{place}-{baseline}" if baseline else "",
        ("paper", "small", "tiny") if small else ("paper", "tiny") if place == "cifar-fs" else ("paper",),
    )


ITEM = Item(
    name="table-6",
    title="Few-shot learning, 5-way accuracy over 3,000 episodes",
    dataset="cifar-fs, mini-imagenet, tiered-imagenet",
    metrics={each.metric: f"{each.shot}-shot %" for each in SHOTS},
    rows=tuple(_row(place, name) for place in SETS for name in LABELS),
    what="method",
    seeds=2,
    cost="small: 4 min (RFS) or 11 min (SKD) on 1 core; paper, CIFAR-FS: 44 h (RFS) on 1 core, by its speed",
    note="The paper's RFS and SKD rows are copied from their papers, over 600 episodes; its OPL rows are over 3,000.",
    compared=tuple(each.metric for each in SHOTS),
    measures=(measure(*SHOTS),),
)
