"""Every command on every hostile folder of `hostile_trees`; a sample of them in `make test-all`."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from hostile_trees import RUN, attack, trees

from opl.experiments.paper import recipe
from opl.experiments.training.run import Part, run

TREES = list(trees())


@pytest.fixture(scope="module")
def bases(tmp_path_factory) -> dict[bool, Path]:
    """A finished and an unfinished run."""
    finished, unfinished = (tmp_path_factory.mktemp(name) for name in ("finished", "unfinished"))
    for name in ("digits-ce", "digits-opl"):
        run(replace(recipe(name, "tiny"), seed=0), finished / "tiny/demo")
    run(replace(recipe("digits-ce", "tiny"), seed=0), unfinished / "tiny/demo", Part(until=2))
    assert (unfinished / RUN / "checkpoint.pt").exists()
    assert not (unfinished / RUN / "done").exists()
    return {True: finished, False: unfinished}


def test_there_are_at_least_200_hostile_folders():
    assert len({tree.name for tree in TREES}) == len(TREES) >= 200


@pytest.mark.slow
@pytest.mark.parametrize("tree", TREES[::12], ids=lambda tree: tree.name)
def test_a_sample_of_hostile_folders_changes_nothing_outside(tree, bases, tmp_path):
    assert attack(tree, bases[tree.finished], tmp_path / "case") == []


@pytest.mark.nightly
def test_no_hostile_folder_changes_anything_outside(bases, tmp_path):
    faults = [fault for tree in TREES for fault in attack(tree, bases[tree.finished], tmp_path / "case")]
    shutil.rmtree(tmp_path, ignore_errors=True)
    assert faults == []
