"""The demo: scikit-learn's digits, not in the paper."""

from ..item import Item, Row

ITEM = Item(
    name="demo",
    title="Digits of scikit-learn: CE against CE+OPL (not in the paper)",
    dataset="digits",
    metrics={"test/top1": "top-1 %", "test/s": "s", "test/d": "d"},
    rows=(Row("CE", "digits-ce", {}), Row("CE+OPL", "digits-opl", {}, baseline="digits-ce")),
    cost="10 s on 1 core",
)
