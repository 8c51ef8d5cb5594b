"""Two questions that the authors leave open, not in the paper: class imbalance and self-supervision.

The plan, written before any run, is docs/study.md, section "Open questions".

Imbalance: CIFAR-100-LT with an imbalance of 100, about 10,800 training images, the half-width fast network. Cross-
entropy, class-balanced focal loss and logit adjustment, each with and without OPL.

Self-supervision: two views of each image of CIFAR-10 (read from JPEG copies), whose label is the number of the image.
NT-Xent, OPL, and both, on the same projection of the features; class labels train only a linear probe. A quarter of the
width of the fast network.
"""

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from ..item import MINUTE, Cost, Item, Row
from . import fast
from .table_1 import VARIANTS
from .variant import Build, Variant, at_scales, item_of_runs, with_methods

if TYPE_CHECKING:
    from ..recipe import Recipe

TAIL, VIEWS = "cifar100-lt", "cifar10-views"
TAIL_LABEL, VIEWS_LABEL = "imbalance, ", "two views, "
VALIDATION = 1000  # images, the same number of every class of CIFAR-100


def _with_opl(build: Build) -> Build:
    """The same method with OPL added, at the paper's weight and gamma."""
    return lambda m: replace(build(m), auxiliary=(*build(m).auxiliary, m.OPL()))


def _views(*auxiliary: Build) -> Build:
    return lambda m: m.SelfSupervision(auxiliary=tuple(build(m) for build in auxiliary))


CE: Build = lambda m: m.Composite()  # noqa: E731
FOCAL = VARIANTS["cb-focal"].method
ADJUSTED: Build = lambda m: m.Composite(criterion=m.LogitAdjustment())  # noqa: E731
LOSSES = {
    "ce": Variant("CE", CE),
    "ce-opl": Variant("CE+OPL", _with_opl(CE), "ce"),
    "cb-focal": Variant("CB Focal", FOCAL),
    "cb-focal-opl": Variant("CB Focal+OPL", _with_opl(FOCAL), "cb-focal"),
    "adjusted": Variant("logit adjustment", ADJUSTED),
    "adjusted-opl": Variant("logit adjustment+OPL", _with_opl(ADJUSTED), "adjusted"),
}
"""The losses of the first question."""
CONTRASTS = {
    "nt-xent": Variant("NT-Xent", _views(lambda m: m.NTXent())),
    "opl": Variant("OPL", _views(lambda m: m.OPL()), "nt-xent"),
    "nt-xent-opl": Variant("NT-Xent+OPL", _views(lambda m: m.NTXent(), lambda m: m.OPL()), "nt-xent"),
}
"""The losses of the second question."""


def _rows(label: str, name: str, variants: dict[str, Variant], task: str) -> tuple[Row, ...]:
    name_of = partial("{}-{}".format, name)
    return tuple(variant.row(label, key, name_of, task=task) for key, variant in variants.items())


OPEN_QUESTIONS = Item(
    name="open-questions",
    title="Class imbalance and self-supervision (not in the paper)",
    dataset="cifar100, cifar10",
    metrics={"test/balanced": "balanced accuracy %", "test/knn": "kNN %"},
    rows=(
        *_rows(TAIL_LABEL, TAIL, LOSSES, "class imbalance"),
        *_rows(VIEWS_LABEL, VIEWS, CONTRASTS, "self-supervision"),
    ),
    seeds=2,
    costs={"small": Cost(12 * MINUTE)},
    note="Imbalance: balanced accuracy is primary. Two views: kNN is primary (20 neighbors among 5,000 training "
    "images); balanced accuracy is that of a linear probe. Planned before the runs: docs/study.md, "
    "section Open questions.",
    compared=("test/balanced", "test/knn"),
    headline=f"{TAIL}-ce-opl",
)
CLASS_GROUPS = item_of_runs(
    OPEN_QUESTIONS,
    "open-questions-classes",
    "Class imbalance: accuracy by the number of training images (not in the paper)",
    OPEN_QUESTIONS.rows[: len(LOSSES)],
    dataset="cifar100",
    metrics={"test/many": "many %", "test/medium": "medium %", "test/few": "few %"},
    note="Top-1 of classes with more than 100, with 20 to 100 and with fewer than 20 training images, averaged over "
    "classes.",
    compared=("test/many", "test/medium", "test/few"),
)
ITEMS = (OPEN_QUESTIONS, CLASS_GROUPS)


def recipes() -> tuple["Recipe", ...]:
    """The recipes of the rows."""
    return tuple(
        recipe
        for bases, variants in ((_tail_bases(), LOSSES), (_views_bases(), CONTRASTS))
        for base in bases
        for recipe in with_methods(base, variants, partial("{}-{}".format, base.name))
    )


def _tail_bases() -> "tuple[Recipe, ...]":
    """The training of the fast network on long-tailed data, with as many steps as on all of CIFAR-100."""
    from ..data import LongTailedCifar100, SyntheticLongTail

    scales = {base.scale: base for base in fast.half_width()}
    data = LongTailedCifar100(val=VALIDATION)
    paper = replace(scales["paper"], name=TAIL, data=data, epochs=40)
    images = SyntheticLongTail(like="cifar100", classes=10, rows=1200, val=40, test=40, largest=120)
    tiny = replace(scales["tiny"], name=TAIL, data=images)
    return at_scales(paper, small=paper, tiny=tiny)


def _views_bases() -> "tuple[Recipe, ...]":
    """The training of a quarter of the fast network on two views of each image."""
    from ..data import SyntheticTwoViews, TwoViewsCifar10
    from ..models import FastNet

    scales = {base.scale: base for base in fast.half_width()}
    data = TwoViewsCifar10(val=VALIDATION)
    paper = replace(scales["paper"], name=VIEWS, data=data, model=FastNet(width=16), epochs=10, batch_size=512)
    images = SyntheticTwoViews(like="cifar10", rows=160, val=40, test=40)
    tiny = replace(scales["tiny"], name=VIEWS, data=images, model=FastNet(half=True, width=8))
    return at_scales(paper, small=paper, tiny=tiny)
