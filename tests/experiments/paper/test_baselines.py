"""A row and its baseline differ in the method alone."""

from dataclasses import replace

from opl.experiments import paper


def test_baseline_and_method_differ_in_the_method_alone():
    for item in paper.ITEMS.values():
        for row in item.rows:
            if row.baseline:
                for scale in row.scales:
                    ours, theirs = paper.recipe(row.recipe, scale), paper.recipe(row.baseline, scale)
                    same = replace(ours, name="x", method=theirs.method, after=theirs.after, members=theirs.members)
                    assert same == replace(theirs, name="x")  # a student of OPL has a teacher of OPL
