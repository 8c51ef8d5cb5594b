"""Table s1, MNIST. Cost of one seed, the paper's figures and ours: RESULTS.md, table s1.

The paper only gives a 4-layer CNN with a 32-d feature after global average pooling. The widths, the schedule and the
number of epochs were chosen so that cross-entropy reaches about the paper's 99.27 on the validation set (RESULTS.md).

Figure 2 shows MNIST features in the plane. The paper shows three classes without naming them, the network or the
length of training. Here: the first three classes, and all ten, with the network of table s1 followed by a linear layer
with two features.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

from ..item import MINUTE, Cost, Item, Row
from .variant import at_scales

if TYPE_CHECKING:
    from ..data import Mnist
    from ..models import MnistNet
    from ..recipe import Recipe

WIDTHS = (16, 32, 32, 32)
VALIDATION = 5000  # images
CE, OPL = "mnist-ce", "mnist-opl"
THREE_CE, THREE_OPL = "mnist-2d-three-ce", "mnist-2d-three-opl"
PLANE_CE, PLANE_OPL = "mnist-2d-ce", "mnist-2d-opl"
TABLE_S1 = Item(
    name="table-s1",
    title="MNIST, 4-layer CNN with a 32-d feature",
    dataset="mnist",
    metrics={"test/top1": "top-1 %", "test/s": "s", "test/d": "d"},
    rows=(
        Row("CE", CE, {"test/top1": 99.27}),
        Row("CE+OPL", OPL, {"test/top1": 99.58}, baseline=CE),
    ),
    costs={"paper": Cost(4 * MINUTE)},
    note="The paper's average of three runs each; its network and schedule are not given.",
    setting="4-layer CNN, 32-d feature; schedule not given",
)
FIGURE_2 = Item(
    name="figure-2",
    title="MNIST, features in two dimensions",
    dataset="mnist",
    metrics={"test/top1": "top-1 %", "test/s": "s", "test/d": "d"},
    rows=(
        Row("CE, three classes", THREE_CE, {}),
        Row("CE+OPL, three classes", THREE_OPL, {}, THREE_CE),
        Row("CE", PLANE_CE, {}),
        Row("CE+OPL", PLANE_OPL, {}, PLANE_CE),
    ),
    seeds=1,
    costs={"paper": Cost(4 * MINUTE)},
    setting="network and schedule not given",
    figure="plane",
)
ITEMS = (TABLE_S1, FIGURE_2)


def recipes() -> tuple["Recipe", ...]:
    """The recipes of the rows."""
    from ..data import Mnist
    from ..models import MnistNet

    plane = MnistNet(widths=WIDTHS, embed=2)
    return (
        *_pair(CE, OPL, Mnist(val=VALIDATION), MnistNet(widths=WIDTHS)),
        *_pair(THREE_CE, THREE_OPL, Mnist(val=VALIDATION, classes=3), plane),
        *_pair(PLANE_CE, PLANE_OPL, Mnist(val=VALIDATION), plane),
    )


def _pair(ce: str, opl: str, data: "Mnist", model: "MnistNet") -> tuple["Recipe", ...]:
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
    images = Synthetic(like="mnist", classes=data.classes, rows=160, val=40, test=40)
    tiny = replace(paper, data=images, epochs=3, batch_size=16)
    baselines = at_scales(paper, small=replace(paper, epochs=3), tiny=tiny)
    return (*baselines, *(replace(base, name=opl, method=CrossEntropyOPL()) for base in baselines))
