"""Table 5, PACS: RSC with and without OPL, and plain training beside it; each domain left out in turn.

The paper has no plain training (ERM), and does not say which network it used: its RSC row is the published one of
ResNet-50, but for photo.
"""

from ..item import Average, Item, Row

TARGETS = {"art": "Art", "cartoon": "Cartoon", "sketch": "Sketch", "photo": "Photo"}
METHODS = {  # what each is called, and what it is compared with
    "erm": ("ERM", ""),
    "erm-opl": ("ERM+OPL", "erm"),
    "rsc": ("RSC", "erm"),
    "rsc-opl": ("RSC+OPL", "rsc"),
}
PAPER = {  # the targets in the order above, and their average
    "rsc": (87.89, 82.16, 83.35, 96.47, 87.47),
    "rsc-opl": (88.28, 84.64, 84.17, 96.83, 88.48),
}
EVERY = ("paper", "small", "tiny")


def _paper(net: str, method: str, place: int) -> dict[str, float]:
    return {"test/top1": PAPER[method][place]} if method in PAPER and not net else {}


def _row(net: str, target: str, method: str) -> Row:
    """Of ResNet-50 at the paper's scale; the others are run there alone."""
    label, baseline = METHODS[method]
    return Row(
        f"{'ResNet-18 ' if net else ''}{TARGETS[target]} {label}",
        f"pacs-{target}-{net}{method}",
        _paper(net, method, list(TARGETS).index(target)),
        f"pacs-{target}-{net}{baseline}" if baseline else "",
        ("paper",) if net else EVERY,
    )


def _average(net: str, method: str) -> Average:
    label, baseline = METHODS[method]
    row = Row(
        f"{'ResNet-18 ' if net else ''}average {label}",
        f"pacs-average-{net}{method}",
        _paper(net, method, len(TARGETS)),
        f"pacs-average-{net}{baseline}" if baseline else "",
        ("paper",) if net else EVERY,
    )
    return Average(row, tuple(f"pacs-{target}-{net}{method}" for target in TARGETS))


NETS = ("", "resnet18-")
ITEM = Item(
    name="table-5",
    title="PACS, each domain left out of training in turn",
    dataset="pacs",
    metrics={"test/top1": "top-1 %", "val/top1": "source validation %", "test/s": "s", "test/d": "d"},
    rows=tuple(_row(net, target, method) for net in NETS for target in TARGETS for method in METHODS),
    what="target and method",
    seeds=2,
    cost="small: 2 min on 1 core",
    note="Weights are chosen by validation images of the source domains. The paper's RSC row is copied, but for photo.",
    averages=tuple(_average(net, method) for net in NETS for method in METHODS),
    pretrained=True,
)
