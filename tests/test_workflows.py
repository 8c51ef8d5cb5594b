"""The workflows use actions by commit, and the notes of a release are its section of the changelog."""

import re
import subprocess
from pathlib import Path

import pytest

import opl

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
pytestmark = pytest.mark.skipif(not WORKFLOWS, reason="the workflows are not in the package")


def steps(path):
    jobs = yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"].values()
    return [step for job in jobs for step in job.get("steps", ())]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_actions_are_pinned_by_commit_hash_with_their_version(path):
    lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines() if "uses:" in line]
    pinned = re.compile(r"(?:- )?uses: [\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$")
    assert [line for line in lines if not pinned.match(line) and "uses: ./" not in line] == []


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_an_action_has_the_same_commit_in_all_workflows(path):
    used = {step["uses"].partition("@")[0]: step["uses"] for step in steps(path) if "uses" in step}
    everywhere = [step["uses"] for other in WORKFLOWS for step in steps(other) if "uses" in step]
    assert {use for use in everywhere if use.partition("@")[0] in used} == set(used.values())


def test_the_release_notes_are_the_section_of_the_version(tmp_path):
    [command] = [
        step["run"]
        for step in steps(ROOT / ".github" / "workflows" / "release.yml")
        if "CHANGELOG" in step.get("run", "")
    ]
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    (tmp_path / "CHANGELOG.md").write_text(f"{text}\n## 0.0.1\n\n- Older.\n", encoding="utf-8")
    environment = {"GITHUB_REF_NAME": f"v{opl.__version__}", "PATH": "/usr/bin:/bin"}
    subprocess.run(["bash", "-c", command], cwd=tmp_path, env=environment, check=True)
    notes = (tmp_path / "notes.md").read_text(encoding="utf-8")
    assert notes.startswith(f"## {opl.__version__}")
    assert "### The loss" in notes
    assert "Older" not in notes
