"""Figure s1: LDA of the base and novel classes of CIFAR-FS, from the runs of RFS with and without OPL in table 6.

Their cost is in RESULTS.md.
"""

from dataclasses import replace

from .table_6 import ITEM as TABLE_6
from .table_6 import name_of, recipes

RUNS = (name_of("cifar-fs", "rfs"), name_of("cifar-fs", "rfs-opl"))
ITEM = replace(
    TABLE_6,
    name="figure-s1",
    title="CIFAR-FS, base and novel classes by LDA",
    dataset="cifar-fs",
    rows=tuple(row for row in TABLE_6.rows if row.recipe in RUNS),
    note="",
    quoted=(),
    figure="lda",
    home=TABLE_6.name,
)

__all__ = ["ITEM", "recipes"]
