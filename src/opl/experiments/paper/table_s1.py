"""Table s1, MNIST. Cost of one seed, the paper's figures and ours: RESULTS.md, table s1.

The paper only gives a 4-layer CNN with a 32-d feature after global average pooling. The widths, the schedule and the
number of epochs were chosen so that cross-entropy reaches about the paper's 99.27 on the validation set (RESULTS.md).
"""

from dataclasses import replace
from typing import TYPE_CHECKING

from ..item import Item, Row

if TYPE_CHECKING:
    from ..data import Mnist
    from ..models import MnistNet
    from ..recipe import Recipe

WIDTHS = (16, 32, 32, 32)
VALIDATION = 5000  # images
CE, OPL = "mnist-ce", "mnist-opl"
ITEM = Item(
    name="table-s1",
    title="MNIST, 4-layer CNN with a 32-d feature",
    dataset="mnist",
    metrics={"test/top1": "top-1 %", "test/s": "s", "test/d": "d"},
    rows=(
        Row("CE", CE, {"test/top1": 99.27}),
        Row("CE+OPL", OPL, {"test/top1": 99.58}, baseline=CE),
    ),
    cost="paper: 4 min on 1 core",
    note="The paper's average of three runs each; its network and schedule are not given.",
    setting="4-layer CNN, 32-d feature; schedule not given",
)


def recipes() -> tuple["Recipe", ...]:
    """The recipes of the rows."""
    from ..data import Mnist
    from ..models import MnistNet

    return pair(CE, OPL, Mnist(val=VALIDATION), MnistNet(widths=WIDTHS))


def pair(ce: str, opl: str, data: "Mnist", model: "MnistNet") -> tuple["Recipe", ...]:
    """CE and CE+OPL with the given names, at every scale."""
    from ...optim import SGD, Cosine
    from ..data import Synthetic
    from ..methods import CrossEntropy, CrossEntropyOPL
    from ..recipe import Recipe

    paper = Recipe(
        name=ce,
        data=data,
        model=model,
        method=CrossEntropy(),
        optimizer=SGD(lr=0.1, weight_decay=5e-4),
        schedule=Cosine(warmup=1),
        epochs=10,
    )
    small = replace(paper, epochs=3, scale="small")
    images = Synthetic(like="mnist", classes=data.classes, rows=160, val=40, test=40)
    tiny = replace(paper, data=images, epochs=3, batch_size=16, scale="tiny")
    baselines = (paper, small, tiny)
    return (*baselines, *(replace(base, name=opl, method=CrossEntropyOPL()) for base in baselines))
