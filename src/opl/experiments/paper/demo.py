"""The demo, not in the paper: CE vs CE+OPL on scikit-learn's digits. A run takes seconds."""

from dataclasses import replace
from typing import TYPE_CHECKING

from ..item import Cost, Item, Row
from .variant import at_scales

if TYPE_CHECKING:
    from ..recipe import Recipe

CE, OPL = "digits-ce", "digits-opl"
VALIDATION = 180  # images, so that accuracy, s and d are known after every epoch
DEMO = Item(
    name="demo",
    title="Digits of scikit-learn: CE vs CE+OPL (not in the paper)",
    dataset="digits",
    metrics={"test/top1": "top-1 %", "test/s": "s", "test/d": "d"},
    rows=(Row("CE", CE, {}), Row("CE+OPL", OPL, {}, baseline=CE)),
    costs={"paper": Cost(10), "small": Cost(10)},
    figure="features",
)
ITEMS = (DEMO,)


def recipes() -> tuple["Recipe", ...]:
    """The recipes of the rows; the paper and small scales are identical."""
    from ...optim import SGD, Cosine
    from ..data import Digits, Synthetic
    from ..methods import CrossEntropy, CrossEntropyOPL
    from ..models import DigitsNet
    from ..recipe import Recipe

    paper = Recipe(
        name=CE,
        data=Digits(val=VALIDATION),
        model=DigitsNet(),
        method=CrossEntropy(),
        optimizer=SGD(lr=0.1, weight_decay=5e-4),
        schedule=Cosine(warmup=1),
        epochs=50,
        batch_size=64,
    )
    data = Synthetic(like="digits", rows=160, val=40, test=40)
    baselines = at_scales(paper, small=paper, tiny=replace(paper, data=data, epochs=4, batch_size=16))
    return (*baselines, *(replace(base, name=OPL, method=CrossEntropyOPL()) for base in baselines))
