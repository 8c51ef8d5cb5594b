"""Figure 2, MNIST features in the plane. Cost of one seed and the measured angles: RESULTS.md, figure 2.

The paper shows three classes without naming them, the network or the length of training. Here: the first three
classes, and all ten, with the network of table s1 followed by a linear layer with two features.
"""

from typing import TYPE_CHECKING

from ..item import Item, Row
from .table_s1 import VALIDATION, WIDTHS, pair

if TYPE_CHECKING:
    from ..recipe import Recipe

THREE_CE, THREE_OPL = "mnist-2d-three-ce", "mnist-2d-three-opl"
CE, OPL = "mnist-2d-ce", "mnist-2d-opl"
ITEM = Item(
    name="figure-2",
    title="MNIST, features in two dimensions",
    dataset="mnist",
    metrics={"test/top1": "top-1 %", "test/s": "s", "test/d": "d"},
    rows=(
        Row("CE, three classes", THREE_CE, {}),
        Row("CE+OPL, three classes", THREE_OPL, {}, THREE_CE),
        Row("CE", CE, {}),
        Row("CE+OPL", OPL, {}, CE),
    ),
    seeds=1,
    cost="paper: 4 min on 1 core",
    setting="network and schedule not given",
    figure="plane",
)


def recipes() -> tuple["Recipe", ...]:
    """The recipes of the rows."""
    from ..data import Mnist
    from ..models import MnistNet

    model = MnistNet(widths=WIDTHS, embed=2)
    return (
        *pair(THREE_CE, THREE_OPL, Mnist(val=VALIDATION, classes=3), model),
        *pair(CE, OPL, Mnist(val=VALIDATION), model),
    )
