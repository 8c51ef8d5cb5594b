"""The confirming runs of the study, not in the paper: the winner of the screen against CE, once, on the test images.

The plan, written before any run, is docs/study.md. Weights and winner are those of the screen, written here before
these runs began. The seeds are none of the screen's, and the recipes have names of their own, so that no other run of
these settings joins.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from ..item import Item, Row
from . import fast, study_screen

if TYPE_CHECKING:
    from ..recipe import Recipe
    from ..types import Method

LABELS = {
    arm: f"{study_screen.ARMS[arm][0]}, weight {study_screen.CHOSEN[arm]:g}"
    for arm in ("opl", "opl-gamma-1", study_screen.WINNER)
}
"""The arms that are confirmed."""


def name_of(arm: str) -> str:
    """The name of the recipe of an arm, or of a recipe of another table with the winner in place of OPL."""
    return f"study-{arm}"


ITEM = Item(
    name="study",
    title="Variants of OPL, CIFAR-100 in few epochs with half width (not in the paper)",
    dataset="cifar100",
    metrics={"test/top1": "top-1 %", "test/s": "s", "test/d": "d", "test/class_cosine": "largest class cosine"},
    rows=(
        Row("CE", name_of("ce"), {}),
        Row("CE with label smoothing", name_of("smooth"), {}, baseline=name_of("ce")),
        *(Row(label, name_of(arm), {}, baseline=name_of("ce")) for arm, label in LABELS.items()),
    ),
    seeds=6,
    first_seed=3,
    note="A plan that was written before the runs: docs/study.md.",
    figure="forest",
    cost="small: 8 min on 2 cores",
    headline=name_of(study_screen.WINNER),
)


def recipes() -> tuple["Recipe", ...]:
    """The recipes of the rows."""
    from .. import methods

    smooth = methods.CrossEntropy(label_smoothing=fast.SMOOTHING)
    return tuple(
        made
        for base in fast.half_width()
        for made in (
            replace(base, name=name_of("ce")),
            replace(base, name=name_of("smooth"), method=smooth),
            *(replace(base, name=name_of(arm), method=_method(arm)) for arm in LABELS),
        )
    )


def winner_row(opl: Row, names: Mapping[str, str]) -> Row:
    """The row of a recipe of `names` with the winner in place of OPL, compared with OPL."""
    label = f"{opl.label.removesuffix('+OPL')}, {LABELS[study_screen.WINNER]}"
    return replace(opl, label=label, recipe=names[opl.recipe], baseline=opl.recipe)


def with_winner(recipes: "Iterable[Recipe]", names: Mapping[str, str]) -> "tuple[Recipe, ...]":
    """Those recipes with OPL that `names` has a new name for, with the winner in place of OPL."""
    from ..methods.auxiliaries import AuxiliaryMethod

    alone = _method(study_screen.WINNER)
    winner = alone.opl
    assert winner is not None

    def substitute(method: "Method") -> "Method":
        return replace(method, auxiliary=(winner,)) if isinstance(method, AuxiliaryMethod) else alone

    return tuple(
        replace(each, name=names[each.name], method=substitute(each.method)) for each in recipes if each.name in names
    )


def _method(arm: str) -> "Method":
    """Cross-entropy with an arm of the study, at its weight."""
    from .. import methods

    return study_screen.ARMS[arm][1](methods, study_screen.CHOSEN[arm])
