"""The fault suite: a sample of every section by default, all cases with `pytest -m nightly`."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

CAMPAIGN = Path(__file__).with_name("campaign.py")
SECTIONS = ("kills", "corruptions", "command_lines", "data_folders", "hostile_files", "pairs", "ranks", "cost")
SAMPLE = 0.01

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the suite watches processes on Linux")


def faults_of(section: str, share: float, log: Path) -> list[str]:
    command = [sys.executable, str(CAMPAIGN), section, "--share", str(share), "--log", str(log)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    file = log / f"{section}.json"
    assert file.exists(), done.stdout + done.stderr
    content = json.loads(file.read_text())
    assert sum(content["counts"].values()) > 0
    return content["faults"]


@pytest.mark.slow
@pytest.mark.parametrize("section", SECTIONS)
def test_sample_of_section_has_no_fault(section, tmp_path):
    assert faults_of(section, SAMPLE, tmp_path) == []


@pytest.mark.nightly
@pytest.mark.parametrize("section", SECTIONS)
def test_section_has_no_fault(section, tmp_path):
    assert faults_of(section, 1.0, tmp_path) == []
