"""Actions and dependencies of CI are pinned by hash, and the notes of a release are its section of the changelog."""

import re
import subprocess
import tomllib
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


def pins(path):
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if "==" in line]
    pairs = (re.match(r"([\w.-]+)==([^\s;]+)", line).groups() for line in lines)
    return {name.lower().replace("_", "-").replace(".", "-"): version for name, version in pairs}


@pytest.mark.parametrize("name", ["experiments", "dev"])
def test_locked_dependencies_have_hashes_and_nothing_else(name):
    text = (ROOT / "requirements" / f"{name}.txt").read_text(encoding="utf-8")
    entries = re.split(r"(?<!\\)\n", re.sub(r"^#.*\n", "", text, flags=re.MULTILINE).strip())
    locked = re.compile(r"[\w.-]+==[\w.!+]+( ; [^\\/:]+)?( \\\n    --hash=sha256:[0-9a-f]{64})+$")
    assert [entry for entry in entries if not locked.match(entry)] == []


@pytest.mark.parametrize("name", ["experiments", "dev"])
def test_locked_versions_are_those_of_the_constraints(name):
    locked, constraints = pins(ROOT / "requirements" / f"{name}.txt"), pins(ROOT / "constraints.txt")
    assert {pin: locked[pin] for pin in locked.keys() & constraints} == {
        pin: constraints[pin] for pin in locked.keys() & constraints
    }
    assert "torch" not in locked


def test_lock_has_every_direct_dependency_except_torch():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    for name, extra in (("experiments", ["experiments"]), ("dev", ["experiments", "docs", "dev"])):
        direct = {re.match(r"[\w-]+", line)[0].lower().replace("_", "-") for part in extra for line in extras[part]}
        assert direct - {"orthogonal-projection-loss"} <= set(pins(ROOT / "requirements" / f"{name}.txt"))
