"""The engine: Fabric without torchmetrics, and the commit of the running source."""

import subprocess

from _python import python
from opl.experiments.training.engine import commit


def test_fabric_is_imported_without_torchmetrics_but_detects_it():
    code = """
import sys
from opl.experiments.training.engine import import_fabric
fabric = import_fabric()
assert "torchmetrics" not in sys.modules
from importlib.util import find_spec
from lightning_fabric.utilities.imports import _TORCHMETRICS_GREATER_EQUAL_1_0_0 as installed
print(installed == (find_spec("torchmetrics") is not None))
"""
    assert python(code).strip() == "True"


def test_a_commit_is_named_only_for_source_that_git_tracks(tmp_path):
    def git(*argv):
        who = ("-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false")
        subprocess.run(["git", "-C", str(tmp_path), *who, *argv], check=True, capture_output=True)

    (tmp_path / "ours.py").write_text("")
    installed = tmp_path / "environment" / "opl.py"
    installed.parent.mkdir()
    installed.write_text("")
    git("init")
    git("add", "ours.py")
    git("commit", "-m", "ours")
    assert len(commit(tmp_path / "ours.py")) == 10
    assert commit(installed) == ""
    (tmp_path / "ours.py").write_text("1")
    assert commit(tmp_path / "ours.py").endswith("+")
