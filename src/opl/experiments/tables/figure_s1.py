"""Figure s1: base and novel classes of CIFAR-FS by LDA, from the runs of RFS with and without OPL in table 6."""

from dataclasses import replace

from .table_6 import ITEM as TABLE_6

ITEM = replace(
    TABLE_6,
    name="figure-s1",
    title="CIFAR-FS, base and novel classes by LDA",
    dataset="cifar-fs",
    rows=tuple(row for row in TABLE_6.rows if row.recipe in ("cifar-fs-rfs", "cifar-fs-rfs-opl")),
    note="",
    figure="lda",
    home="table-6",
)
