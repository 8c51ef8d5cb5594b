"""The board, not in the paper: fifteen losses by eleven measures, on all of CIFAR-100 with the half-width fast network.

The plan, written before any run, is docs/study.md, section "The board". The losses and their settings are those of
table 1, except for losses whose margin is introduced over the first steps. One rule adapts these to the short training:
a schedule reaches its final value at the same fraction of training as at the paper scale of table 1, but not before
`LATEST` of the steps. At the paper scale all of them end earlier, so here all end at `LATEST`.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

from ..evaluation.protocols import OpenSet
from ..item import MINUTE, Cost, Item, Measure, Row
from ..results.measures import BOARD
from ..run_folder import measure_name
from ..settings import to_json
from . import fast
from .table_1 import VARIANTS
from .variant import Build

if TYPE_CHECKING:
    from ..recipe import Recipe

SMOOTH = "smooth"
LABELS = {"ce": "CE", SMOOTH: "CE with label smoothing"} | {key: loss.label for key, loss in VARIANTS.items()}
"""The losses: CE, label smoothing, and the others of table 1."""
OUTSIDE = OpenSet(outside="cifar10")
LATEST = 0.7  # fraction of the steps
STEPS = {"paper": 9 * 49, "small": 9 * 49, "tiny": 3 * 5}  # epochs by batches: of 49,500 and of 160 images
PAPER_STEPS = 200 * 352  # of table 1, which the fractions below refer to

PACED: dict[str, tuple[float, Build]] = {
    # Tuned: with the floor of 5 it had 44 % of the validation images in a trial in which CE had 61 %.
    "a-softmax": (1_659, lambda m, end: m.Composite(head=m.heads.ASoftmax(gamma=(1000 / 20 - 1) / end, floor=20.0))),
    "l-softmax": (
        6_537,
        lambda m, end: m.Composite(head=m.heads.LSoftmax(gamma=((1000 / 5) ** (1 / 35) - 1) / end, floor=5.0)),
    ),
    "lmc": (0, lambda m, end: m.Composite(head=m.heads.CosFace(scale=30.0, warmup=round(end)))),
    "lgm": (
        10_000,
        lambda m, end: m.Composite(head=m.heads.LGM(weight=0.01, start=0.01, double_every=max(1, round(end / 5)))),
    ),
    "aam": (0, lambda m, end: m.Composite(head=m.heads.ArcFace(scale=30.0, warmup=round(end)))),
}
"""The losses with a schedule: the step at which it ends at the paper scale, and the method with another such step.

A-Softmax and L-Softmax anneal a blend from 1000 to 20 and 5, LGM doubles its margin five times,
and the margins of LMC and AAM grow linearly from 0.
"""


RBF_WIDTH = 32.0  # tuned: with twice the number of features, 768, it had 30 % where CE had 61 %


def name_of(key: str) -> str:
    """The name of the recipe of a loss."""
    return f"board-{key}"


def last_step(key: str, steps: int) -> float:
    """The step at which the schedule of a loss reaches its final value, in a training of `steps` steps."""
    return max(LATEST, PACED[key][0] / PAPER_STEPS) * steps


THE_BOARD = Item(
    name="board",
    title="Fifteen losses by eleven measures, CIFAR-100 in few epochs with half width (not in the paper)",
    dataset="cifar100",
    metrics={name: measure.title for name, measure in BOARD.items()},
    rows=tuple(
        Row(label, name_of(key), {}, baseline="" if key == "ce" else name_of("ce")) for key, label in LABELS.items()
    ),
    costs={"small": Cost(8 * MINUTE, cores=2)},  # of CE
    note="Planned before the runs: docs/study.md, section The board.",
    figure="board",
    headline=name_of("opl"),
    measures=(
        Measure(
            ("open-set", "--outside", OUTSIDE.outside),
            (measure_name(OUTSIDE.metric),),
            ("paper", "small"),
            (to_json(OUTSIDE),),
        ),
    ),
)
ITEMS = (THE_BOARD,)


def recipes() -> tuple["Recipe", ...]:
    """The recipes of the rows."""
    from .. import methods

    made: list[Recipe] = []
    for base in fast.half_width():
        steps = STEPS[base.scale]
        built = {key: loss.method(methods) for key, loss in VARIANTS.items() if key not in PACED}
        built |= {key: build(methods, last_step(key, steps)) for key, (_, build) in PACED.items()}
        built["rbf"] = methods.Composite(head=methods.heads.RBF(gamma=RBF_WIDTH))
        built[SMOOTH] = methods.CrossEntropy(label_smoothing=fast.SMOOTHING)
        made += [replace(base, name=name_of(key), method=built[key]) for key in LABELS]
    return tuple(made)
