"""Table 6: its recipes are like for like."""

from dataclasses import replace

from opl.experiments import tables
from opl.experiments.methods import CrossEntropy


def test_recipes_of_table_6_are_like_for_like():
    for scale in ("paper", "small", "tiny"):
        for ours, theirs in (("rfs-opl", "rfs"), ("rfs-script-opl", "rfs-script"), ("skd-opl", "skd")):
            one, two = (tables.recipe(f"cifar-fs-{name}", scale) for name in (ours, theirs))
            assert replace(one, name="", method=CrossEntropy()) == replace(two, name="", method=CrossEntropy())
