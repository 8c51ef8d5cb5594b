"""The screen of the study, not in the paper: variants of OPL and their weights, compared on validation images alone.

The plan, written before any run, is docs/study.md: the first round has every weight of every arm with one seed, the
second two more seeds for what was best in it, which is written in `CHOSEN`.
"""

from collections.abc import Callable
from dataclasses import replace
from types import ModuleType
from typing import TYPE_CHECKING

from ..item import Item, Row

if TYPE_CHECKING:
    from ..recipe import Recipe
    from ..types import Method

NAME = "screen-resnet8"
WEIGHTS = (0.1, 0.3, 1.0)
SMOOTHINGS = (0.05, 0.1, 0.25)

CHOSEN = {
    "smooth": 0.25,
    "opl": 1.0,
    "opl-gamma-1": 0.1,
    "auto": 0.1,
    "log-ratio": 0.1,
    "prototypes": 1.0,
    "centered": 0.3,
    "ramp-1": 0.3,
    "ramp-2": 0.1,
    "balanced": 0.1,
}
"""By arm, the weight, or the amount of label smoothing, that was best in the first round."""
WINNER = "ramp-1"
"""The variant with the highest mean after the second round."""

Arm = Callable[[ModuleType, float], "Method"]


def _variant(**settings: object) -> Arm:
    return lambda m, weight: m.Composite(auxiliary=(m.OPLVariant(weight=weight, **settings),))


ARMS: dict[str, tuple[str, Arm]] = {
    "opl": ("CE+OPL, gamma 0.5 (paper)", lambda m, weight: m.CrossEntropyOPL(weight=weight)),
    "opl-gamma-1": ("CE+OPL, gamma 1", lambda m, weight: m.CrossEntropyOPL(weight=weight, gamma=1.0)),
    "auto": ("gamma auto", _variant(rule="auto")),
    "log-ratio": ("log-ratio", _variant(variant="log_ratio", gamma=1.0)),
    "prototypes": ("prototypes", _variant(variant="prototypes", gamma=1.0)),
    "centered": ("centered", _variant(centered=True, gamma=1.0)),
    "ramp-1": ("gamma from 0 to 1", _variant(rule="linear", gamma=0.0, end=1.0)),
    "ramp-2": ("gamma from 0 to 2, cosine", _variant(rule="cosine", gamma=0.0, end=2.0)),
    "balanced": ("balanced weight, gamma 1", _variant(balanced=True, gamma=1.0)),
}
"""By key, the label of an arm and its method for a weight."""


def name_of(arm: str, weight: float | None = None) -> str:
    """The name of the recipe of an arm with a weight."""
    return f"{NAME}-{arm}" + ("" if weight is None else f"-{weight:g}")


def _row(arm: str, weight: float, label: str) -> Row:
    """The row of an arm with a weight; what was not the best of the first round has that one seed."""
    return Row(label, name_of(arm, weight), {}, name_of("ce"), seeds=0 if CHOSEN.get(arm) == weight else 1)


ITEM = Item(
    name="study-screen",
    title="Variants of OPL, ResNet-8 on 20 classes of CIFAR-100, by validation (not in the paper)",
    dataset="cifar100",
    metrics={"val/top1": "validation top-1 %"},
    rows=(
        Row("CE", name_of("ce"), {}),
        *(_row("smooth", each, f"CE, label smoothing {each:g}") for each in SMOOTHINGS),
        *(_row(arm, weight, f"{label}, weight {weight:g}") for arm, (label, _) in ARMS.items() for weight in WEIGHTS),
    ),
    cost="small: 3 min on 1 core",
    headline=name_of(WINNER, CHOSEN[WINNER]),
)


def recipes() -> tuple["Recipe", ...]:
    """The recipes of the rows."""
    from .. import methods

    made: list[Recipe] = []
    for base in _bases():
        made.append(base)
        made += [
            replace(base, name=name_of("smooth", each), method=methods.CrossEntropy(label_smoothing=each))
            for each in SMOOTHINGS
        ]
        made += [
            replace(base, name=name_of(arm, weight), method=method(methods, weight))
            for arm, (_, method) in ARMS.items()
            for weight in WEIGHTS
        ]
    return tuple(made)


def _bases() -> "tuple[Recipe, ...]":
    from ...optim import SGD, OneCycle
    from ..data import Cifar100, Synthetic
    from ..methods import CrossEntropy
    from ..models import CifarResNet
    from ..recipe import Recipe

    paper = Recipe(
        name=name_of("ce"),
        data=Cifar100(classes=20, val=10_000),
        model=CifarResNet(depth=8),
        method=CrossEntropy(),
        optimizer=SGD(lr=0.4, weight_decay=5e-4, nesterov=True),
        schedule=OneCycle(),
        epochs=20,
        batch_size=128,
        precision="bf16-mixed",
    )
    tiny = replace(
        paper,
        data=Synthetic(like="cifar100", classes=10, rows=160, val=40, test=40),
        model=CifarResNet(depth=8, width=8),
        epochs=2,
        batch_size=32,
        precision="32-true",
        scale="tiny",
    )
    return paper, replace(paper, scale="small"), tiny
