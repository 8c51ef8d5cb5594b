"""Table 1, CIFAR-100, thirteen losses: the paper's top-1 and top-5 with ResNet-56 and with ResNet-110."""

from ..item import Item, Row

LABELS = {
    "ce": ("CE", (72.40, 92.68), (73.79, 93.11)),
    "opl": ("CE+OPL", (73.52, 93.07), (74.85, 93.32)),
    "center": ("Center", (72.72, 93.06), (74.27, 93.20)),
    "focal": ("Focal", (73.09, 93.07), (74.34, 93.34)),
    "a-softmax": ("A-Softmax", (72.20, 91.28), (72.72, 90.41)),
    "lmc": ("LMC", (71.52, 91.64), (73.15, 91.88)),
    "ole": ("OLE", (71.95, 92.52), (72.70, 92.63)),
    "lgm": ("LGM", (73.08, 93.10), (74.34, 93.06)),
    "anchor": ("Anchor", None, (74.38, 92.45)),
    "aam": ("AAM", (71.41, 91.66), (73.72, 91.86)),
    "cb-focal": ("CB Focal", (73.09, 93.07), (74.34, 93.34)),
    "hnc": ("HNC", (73.47, 93.29), (74.76, 93.65)),
    "rbf": ("RBF", (73.36, 92.94), None),
}


def _row(name: str, label: str, model: str, paper: tuple[float, float] | None, scales: tuple[str, ...]) -> Row:
    numbers = dict(zip(("test/top1", "test/top5"), paper, strict=True)) if paper else {}
    return Row(label, f"{model}-{name}", numbers, "" if name == "ce" else f"{model}-ce", scales)


ITEM = Item(
    name="table-1",
    title="CIFAR-100, ResNet-56 and ResNet-110",
    dataset="cifar100",
    metrics={"test/top1": "top-1 %", "test/top5": "top-5 %", "test/s": "s", "test/d": "d"},
    rows=(
        *(
            _row(name, label, "cifar100-resnet56", r56, ("paper", "small", "tiny"))
            for name, (label, r56, _) in LABELS.items()
        ),
        *(
            _row(name, f"ResNet-110 {label}", "cifar100-resnet110", r110, ("paper",))
            for name, (label, _, r110) in LABELS.items()
        ),
    ),
    cost="small: 3 min on 1 core; paper: 22 h on 2 cores",
    note="The paper's single runs, the best test epoch; ours are the last epoch's.",
)
