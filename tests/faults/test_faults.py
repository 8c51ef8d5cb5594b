"""The fault suite: a sample of every section by default, all cases with `pytest -m nightly`."""

import json
import subprocess
import sys
import time
from argparse import Namespace
from pathlib import Path
from types import SimpleNamespace

import _process
import campaign
import pytest
from campaign import FAULTS, SECTIONS, Case, Verdict, count, table
from hostile_trees import trees
from hostile_values import FILES, write_base

from opl.experiments.paper import item
from opl.experiments.results.conformity import screen
from opl.experiments.results.runs import read_runs

CAMPAIGN = Path(__file__).with_name("campaign.py")
SAMPLES = {  # the fraction of the cases of each section that `make test-all` runs
    "kills": 0.02, "corruptions": 0.01, "command_lines": 0.01, "data_folders": 0.02, "hostile_files": 0.04,
    "hostile_trees": 0.08, "hostile_values": 0.005, "pairs": 0.1, "ranks": 0.1, "cost": 0.01,
}  # fmt: skip

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the suite watches processes on Linux")


def records_of(section: str, share: float, log: Path) -> list[dict]:
    command = [sys.executable, str(CAMPAIGN), "--section", section, "--share", str(share), "--log", str(log)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    file = log / f"{section}.jsonl"
    assert file.exists(), done.stdout + done.stderr
    records = [json.loads(line) for line in file.read_text().splitlines()]
    assert sum(record["count"] for record in records) > 0, done.stdout + done.stderr
    assert (done.returncode == 0) == (count(records, *FAULTS) == 0)
    return [record for record in records if record["outcome"] in FAULTS]


@pytest.mark.slow
@pytest.mark.parametrize("section", SECTIONS)
def test_sample_of_section_has_no_fault(section, tmp_path):
    assert records_of(section, SAMPLES[section], tmp_path) == []


@pytest.mark.nightly
@pytest.mark.parametrize("section", SECTIONS)
def test_section_has_no_fault(section, tmp_path):
    assert records_of(section, 1.0, tmp_path) == []


def test_there_are_at_least_200_hostile_folders():
    names = [tree.name for tree in trees()]
    assert len(set(names)) == len(names) >= 200


@pytest.mark.slow
def test_without_a_changed_value_every_run_is_comparable_and_has_every_file(tmp_path):
    write_base(tmp_path)
    runs = screen(read_runs(tmp_path), [item("demo")])
    assert [run.state for run in runs] == ["done"] * 20
    assert all((run.folder.path / name).exists() for run in runs for name in FILES)


def test_table_counts_attempts_and_shows_faults():
    records = [
        {"case": "a", "outcome": "right", "count": 6, "seconds": 1.0, "detail": ""},
        {"case": "b", "outcome": "lost", "count": 1, "seconds": 2.0, "detail": "gone"},
    ]
    lines = table([("kills", records)]).splitlines()
    assert lines[0].split() == ["section", "cases", "right", "refused", "faults", "seconds"]
    assert lines[1].split() == ["kills", "7", "6", "0", "1", "3"]
    assert lines[-1].startswith("kills: lost: b | gone")


def test_engine_records_every_case_and_resumes(tmp_path, monkeypatch):
    """A case that fails is a traceback, and one that cannot be interrupted a hang; neither stops the others."""
    actions = {
        "fine": lambda sandbox: Verdict("right" if sandbox.is_dir() else "lost"),
        "broken": lambda _: 1 / 0,
        "stuck": lambda _: time.sleep(60),
        "twice": lambda _: Verdict("refused"),
    }
    cases = [Case(name, action, 2 if name == "twice" else 1) for name, action in actions.items()]
    monkeypatch.setitem(sys.modules, "some_section", SimpleNamespace(cases=lambda scratch, share: cases))
    monkeypatch.setattr(campaign, "WATCHDOG", 0.5)

    def run(scratch: str) -> dict[str, tuple[str, int]]:
        options = Namespace(share=1.0, list=False, jobs=2)
        log = tmp_path / "some_section.jsonl"
        assert _process.fork(campaign._section, "some_section", tmp_path / scratch, log, options).end() == 0
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        named = [line for line in lines if line["case"]]
        assert len(named) == len(cases)
        return {line["case"]: (line["outcome"], line["count"]) for line in named}

    expected = {"fine": ("right", 1), "broken": ("traceback", 1), "stuck": ("hang", 1), "twice": ("refused", 2)}
    assert run("first") == expected
    assert run("second") == expected
