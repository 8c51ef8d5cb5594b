"""The study, not in the paper: variants of OPL, screened on validation images, then the winner vs CE on test images.

The plan, written before any run, is docs/study.md. The first round of the screen has every weight of every arm with one
seed, the second two more seeds for the best of each arm, which is written in `CHOSEN`. Weights and winner of the
confirming runs are those of the screen, written here before these runs began; their seeds are none of the screen's, and
their recipes have names of their own, so that no other run of these settings joins.

Tables 3, 5 and 6 have the study's winner beside the paper's OPL in items of their own (`study-noise`, `study-domains`,
`study-few-shot`), which share their runs.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from ..item import MINUTE, Cost, Item, Row
from . import fast
from .variant import Build, Variant, at_scales, revised_d

if TYPE_CHECKING:
    from ..recipe import Recipe
    from ..types import Method

SCREEN = "screen-resnet8"
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
"""By arm, the best weight, or amount of label smoothing, of the first round."""
WINNER = "ramp-1"
"""The variant with the highest mean after the second round."""


def _variant(**settings: object) -> Build:
    return lambda m, weight: m.Composite(auxiliary=(m.OPLVariant(weight=weight, **settings),))


ARMS = {
    "opl": Variant("CE+OPL, gamma 0.5 (paper)", lambda m, weight: m.CrossEntropyOPL(weight=weight)),
    "opl-gamma-1": Variant("CE+OPL, gamma 1", lambda m, weight: m.CrossEntropyOPL(weight=weight, gamma=1.0)),
    "auto": Variant("gamma auto", _variant(rule="auto")),
    "log-ratio": Variant("log-ratio", _variant(variant="log_ratio", gamma=1.0)),
    "prototypes": Variant("prototypes", _variant(variant="prototypes", gamma=1.0)),
    "centered": Variant("centered", _variant(centered=True, gamma=1.0)),
    "ramp-1": Variant("gamma from 0 to 1", _variant(rule="linear", gamma=0.0, end=1.0)),
    "ramp-2": Variant("gamma from 0 to 2, cosine", _variant(rule="cosine", gamma=0.0, end=2.0)),
    "balanced": Variant("balanced weight, gamma 1", _variant(balanced=True, gamma=1.0)),
}
"""The variants of OPL; their methods take `opl.experiments.methods` and a weight."""
CONFIRMED = {arm: f"{ARMS[arm].label}, weight {CHOSEN[arm]:g}" for arm in ("opl", "opl-gamma-1", WINNER)}
"""The arms of the confirming runs, and their labels."""


def screen_name(arm: str, weight: float | None = None) -> str:
    """The name of the recipe of an arm with a weight in the screen."""
    return f"{SCREEN}-{arm}" + ("" if weight is None else f"-{weight:g}")


def name_of(arm: str) -> str:
    """The name of the recipe of a confirmed arm, or of a recipe of another table with the winner in place of OPL."""
    return f"study-{arm}"


def _row(arm: str, weight: float, label: str) -> Row:
    """The row of an arm with a weight; weights other than the best of the first round have only its seed."""
    seeds = 0 if CHOSEN.get(arm) == weight else 1
    return Row(label, screen_name(arm, weight), {}, screen_name("ce"), seeds=seeds)


STUDY_SCREEN = Item(
    name="study-screen",
    title="Variants of OPL, ResNet-8 on 20 classes of CIFAR-100, by validation (not in the paper)",
    dataset="cifar100",
    metrics={"val/top1": "validation top-1 %"},
    rows=(
        Row("CE", screen_name("ce"), {}),
        *(_row("smooth", amount, f"CE, label smoothing {amount:g}") for amount in SMOOTHINGS),
        *(_row(arm, weight, f"{ARMS[arm].label}, weight {weight:g}") for arm in ARMS for weight in WEIGHTS),
    ),
    costs={"small": Cost(3 * MINUTE)},
    headline=screen_name(WINNER, CHOSEN[WINNER]),
)
STUDY = Item(
    name="study",
    title="Variants of OPL, CIFAR-100 in few epochs with half width (not in the paper)",
    dataset="cifar100",
    metrics={"test/top1": "top-1 %", "test/s": "s", "test/d": "d", "test/class_cosine": "largest class cosine"},
    rows=(
        Row("CE", name_of("ce"), {}),
        Row("CE with label smoothing", name_of("smooth"), {}, baseline=name_of("ce")),
        *(Row(label, name_of(arm), {}, baseline=name_of("ce")) for arm, label in CONFIRMED.items()),
    ),
    seeds=6,
    first_seed=3,
    note="Planned before the runs: docs/study.md.",
    figure="forest",
    costs={"small": Cost(8 * MINUTE, cores=2)},
    headline=name_of(WINNER),
    revisions=(revised_d(name_of(arm) for arm in ("ce", "smooth", *CONFIRMED)),),  # SiLU features have both signs
)
ITEMS = (STUDY_SCREEN, STUDY)


def recipes() -> tuple["Recipe", ...]:
    """The recipes of the screen and of the confirming runs."""
    return *_screened(), *_confirmed()


def _screened() -> "list[Recipe]":
    from .. import methods

    made: list[Recipe] = []
    for base in _bases():
        made.append(base)
        made += [
            replace(base, name=screen_name("smooth", amount), method=methods.CrossEntropy(label_smoothing=amount))
            for amount in SMOOTHINGS
        ]
        made += [
            replace(base, name=screen_name(arm, weight), method=variant.method(methods, weight))
            for arm, variant in ARMS.items()
            for weight in WEIGHTS
        ]
    return made


def _confirmed() -> "list[Recipe]":
    from .. import methods

    made: list[Recipe] = []
    smooth = methods.CrossEntropy(label_smoothing=fast.SMOOTHING)
    for base in fast.half_width():
        made += [replace(base, name=name_of("ce")), replace(base, name=name_of("smooth"), method=smooth)]
        made += [replace(base, name=name_of(arm), method=_method(arm)) for arm in CONFIRMED]
    return made


def _bases() -> "tuple[Recipe, ...]":
    from ...optim import SGD, OneCycle
    from ..data import Cifar100, Synthetic
    from ..methods import CrossEntropy
    from ..models import CifarResNet
    from ..recipe import Recipe

    paper = Recipe(
        name=screen_name("ce"),
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
    )
    return at_scales(paper, small=paper, tiny=tiny)


def winner_row(opl: Row, names: Mapping[str, str]) -> Row:
    """The row of a recipe of `names` with the winner in place of OPL, compared with OPL."""
    label = f"{opl.label.removesuffix('+OPL')}, {CONFIRMED[WINNER]}"
    return replace(opl, label=label, recipe=names[opl.recipe], baseline=opl.recipe)


def with_winner(recipes: "Iterable[Recipe]", names: Mapping[str, str]) -> "tuple[Recipe, ...]":
    """The recipes that `names` has a new name for, with the winner in place of OPL."""
    from ..methods.auxiliaries import AuxiliaryMethod

    alone = _method(WINNER)
    winner = alone.opl
    assert winner is not None

    def substitute(method: "Method") -> "Method":
        return replace(method, auxiliary=(winner,)) if isinstance(method, AuxiliaryMethod) else alone

    return tuple(
        replace(recipe, name=names[recipe.name], method=substitute(recipe.method))
        for recipe in recipes
        if recipe.name in names
    )


def _method(arm: str) -> "Method":
    """Cross-entropy with an arm of the study, at its weight."""
    from .. import methods

    method: Method = ARMS[arm].method(methods, CHOSEN[arm])
    return method
