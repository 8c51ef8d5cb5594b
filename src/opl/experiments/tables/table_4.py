"""Table 4, adversarial robustness: Madry, Hendrycks and MART with and without OPL, under the standard AutoAttack."""

from ..evaluation.attack.settings import Attack
from ..item import Item, Measure, Row

SETS = {"cifar10": "CIFAR-10", "cifar100": "CIFAR-100"}
ATTACK = Attack()
CLEAN, UNDER_PGD, UNDER_ATTACK = "test/top1", ATTACK.metric("pgd"), ATTACK.metric("autoattack")
IMAGES = {"paper": 0, "small": 200, "tiny": 2}  # how many test images are attacked; 0 is all
PAPER = {
    "cifar10": {
        "madry": (87.14, 44.04), "madry-opl": (87.76, 49.15), "hendrycks": (87.11, 54.92),
        "hendrycks-opl": (87.51, 55.73), "mart": (84.49, 54.10), "mart-opl": (84.41, 56.23),
    },
    "cifar100": {
        "madry": (60.20, 20.60), "madry-opl": (61.13, 23.01), "hendrycks": (59.23, 28.42),
        "hendrycks-opl": (61.00, 30.05), "mart": (58.90, 23.40), "mart-opl": (58.01, 25.74),
    },
}  # fmt: skip
LABELS = {  # what each is called, and what it is compared with
    "standard": ("trained without attacks", ""),
    "madry": ("Madry", ""),
    "madry-opl": ("Madry+OPL", "madry"),
    "hendrycks": ("Hendrycks", ""),
    "hendrycks-opl": ("Hendrycks+OPL", "hendrycks"),
    "mart": ("MART", ""),
    "mart-opl": ("MART+OPL", "mart"),
    "trades": ("TRADES", ""),
    "trades-opl": ("TRADES+OPL", "trades"),
}


def _row(place: str, name: str) -> Row:
    label, baseline = LABELS[name]
    numbers = PAPER[place].get(name)
    here = () if place == "cifar10" else ("tiny",) if name.startswith("trades") else ("small", "tiny")
    return Row(
        f"{SETS[place]} {label}",
        f"{place}-robust-{name}",
        dict(zip((CLEAN, UNDER_ATTACK), numbers, strict=True)) if numbers else {},
        f"{place}-robust-{baseline}" if baseline else "",
        ("paper", *here),
    )


def _measure(scale: str) -> Measure:
    names = tuple(f"attack-{ATTACK.name(kind)}" for kind in ATTACK.kinds)
    return Measure(("attack", "--eps", "8/255", "--images", str(IMAGES[scale])), names, (scale,))


ITEM = Item(
    name="table-4",
    title="Adversarial robustness, L-infinity, 8/255",
    dataset="cifar10, cifar100",
    metrics={CLEAN: "clean %", UNDER_PGD: "PGD-20 %", UNDER_ATTACK: "AutoAttack %"},
    rows=tuple(_row(place, name) for place in SETS for name in LABELS),
    what="method",
    seeds=2,
    cost="small: 3 min, and 3 to 6 min under attack, on 1 core",
    note="Clean: all test images; attacked: all at paper scale, 200 at small. The paper names no network, radius or "
    "schedule; its Madry (CIFAR-10) and Hendrycks baselines are those of AutoAttack's own list, of other networks.",
    compared=(CLEAN, UNDER_ATTACK),
    measures=tuple(_measure(scale) for scale in IMAGES),
    unit="images",
)
