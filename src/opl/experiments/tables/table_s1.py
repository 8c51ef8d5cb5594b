"""Table s1, MNIST."""

from ..item import Item, Row

ITEM = Item(
    name="table-s1",
    title="MNIST, 4-layer CNN with a 32-d feature",
    dataset="mnist",
    metrics={"test/top1": "top-1 %", "test/s": "s", "test/d": "d"},
    rows=(
        Row("CE", "mnist-ce", {"test/top1": 99.27}),
        Row("CE+OPL", "mnist-opl", {"test/top1": 99.58}, baseline="mnist-ce"),
    ),
    cost="paper: 4 min on 1 core",
    note="The paper's average of three runs each; its network and schedule are not given.",
)
