"""A small fault campaign: a handful of cases of every section; the whole one is `python benchmarks/faults.py`."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
QUICK = ("kills", "corruptions", "command-lines", "data-folders", "hostile-files", "pairs")
SLOW = ("ranks", "cost")

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are watched by /proc")


def campaign(folder, *words):
    command = [sys.executable, str(ROOT / "benchmarks" / "faults.py"), "--log", str(folder), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done, {file.stem: json.loads(file.read_text()) for file in folder.glob("*.json")}


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    return campaign(tmp_path_factory.mktemp("campaign"), "--small", *QUICK)


@pytest.mark.parametrize("section", QUICK)
def test_a_small_campaign_finds_no_fault(small, section):
    done, counts = small
    assert section in counts, done.stdout + done.stderr
    assert counts[section]["faults"] == []
    assert sum(counts[section]["counts"].values()) > 0


def test_the_table_has_a_row_for_each_section(small):
    done, _ = small
    assert [line.split("  ")[0].replace(" ", "-") for line in done.stdout.splitlines()[1:7]] == list(QUICK)


@pytest.mark.slow
@pytest.mark.parametrize("section", [*QUICK, *SLOW])
def test_the_whole_campaign_finds_no_fault(tmp_path, section):
    done, counts = campaign(tmp_path, section)
    assert counts[section]["faults"] == [], done.stdout
