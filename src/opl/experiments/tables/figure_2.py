"""Figure 2, MNIST features in the plane."""

from ..item import Item, Row

ITEM = Item(
    name="figure-2",
    title="MNIST, features in two dimensions",
    dataset="mnist",
    metrics={"test/top1": "top-1 %", "test/s": "s", "test/d": "d"},
    rows=(
        Row("CE, three classes", "mnist-2d-three-ce", {}),
        Row("CE+OPL, three classes", "mnist-2d-three-opl", {}, "mnist-2d-three-ce"),
        Row("CE", "mnist-2d-ce", {}),
        Row("CE+OPL", "mnist-2d-opl", {}, "mnist-2d-ce"),
    ),
    seeds=1,
    cost="paper: 4 min on 1 core",
    figure="plane",
)
