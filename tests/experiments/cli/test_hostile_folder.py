"""`opl` in a folder with hostile modules: no process of it imports them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.usefixtures("apart")
MODULES = (
    "json", "random", "struct", "pickle", "copy", "types_", "signal", "socket", "secrets", "tempfile", "threading",
    "multiprocessing", "subprocess", "encodings_", "sitecustomize", "usercustomize", "torch", "numpy", "scipy", "PIL",
    "sklearn", "rich", "tyro", "yaml", "safetensors", "lightning_fabric", "datasets", "pyarrow", "matplotlib",
    "opl", "cluster", "worker", "decode",
)  # fmt: skip
TINY = ("--scale", "tiny", "--out", "runs")


@pytest.fixture
def hostile(tmp_path) -> Path:
    """A folder of modules that leave a file behind when they are imported."""
    folder = tmp_path / "hostile"
    folder.mkdir()
    for name in MODULES:
        code = f"open({str(tmp_path / 'ran')!r}, 'a').write({name + chr(10)!r})\nraise ImportError({name!r})\n"
        (folder / f"{name}.py").write_text(code)
    return folder


def run(folder: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    package = Path(sys.modules["opl"].__file__).parents[1]
    environment = {**os.environ, "PYTHONPATH": str(package)}
    environment.pop("PYTHONSAFEPATH", None)
    return subprocess.run(
        argv,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
        stdin=subprocess.DEVNULL,
    )


def opl(folder: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    return run(folder, sys.executable, "-P", "-m", "opl", *argv)


def test_modules_run_without_protection(hostile, tmp_path):
    assert run(hostile, sys.executable, "-c", "import json").returncode == 1
    assert (tmp_path / "ran").read_text() == "json\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    "argv", [("train", "digits-opl", "--devices", "2", "--epochs", "1"), ("reproduce", "demo", "--seeds", "1")]
)
def test_commands_that_start_processes_import_nothing_from_the_working_folder(argv, hostile, tmp_path):
    done = opl(hostile, *argv, *TINY)
    assert not (tmp_path / "ran").exists(), (tmp_path / "ran").read_text()
    assert done.returncode == 0, done.stderr[-800:]
    assert list((hostile / "runs").rglob("seed-0/done"))


def test_a_spawned_process_imports_nothing_from_the_working_folder(hostile, tmp_path):
    code = (
        "import sys; sys.argv = ['opl', '--version']\n"
        "from opl.experiments.cli import main\n"
        "main()\n"
        "import multiprocessing, time\n"
        "process = multiprocessing.get_context('spawn').Process(target=time.sleep, args=(0,))\n"
        "process.start(); process.join(); sys.exit(process.exitcode)\n"
    )
    done = run(hostile, sys.executable, "-P", "-c", code)
    assert not (tmp_path / "ran").exists(), (tmp_path / "ran").read_text()
    assert done.returncode == 0, done.stderr[-800:]


def test_python_m_opl_takes_nothing_from_the_working_folder(tmp_path):
    for name in ("tyro", "numpy", "rich"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit(7)\n")
    done = run(tmp_path, sys.executable, "-m", "opl", "recipes")
    assert (done.returncode, done.stderr) == (0, "")
