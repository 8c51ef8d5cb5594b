"""Tasks on Ray, in clusters of two machines that are processes of this one."""

import os
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path

import pytest

from opl.experiments.run_folder import MODEL
from opl.experiments.runner.executor import Task
from opl.experiments.runner.ray_executor import RayCluster

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'orthogonal-projection-loss[ray]'")

TABLE = ("reproduce", "demo", "--scale", "tiny", "--out")
MEMORY = 80 * 2**20


@pytest.fixture
def cluster(monkeypatch):
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setenv("RAY_worker_niceness", "0")
    options = {"num_cpus": 0, "include_dashboard": False, "object_store_memory": MEMORY}
    made = Cluster(initialize_head=True, head_node_args=options)
    made.workers = [made.add_node(num_cpus=1, object_store_memory=MEMORY) for _ in range(2)]
    monkeypatch.setenv("RAY_ADDRESS", made.address)
    yield made
    ray.shutdown()
    made.shutdown()


def wait_until(what, process):
    end = time.monotonic() + 400
    while not what() and process.poll() is None:
        assert time.monotonic() < end
        time.sleep(0.05)


def opl(*argv):
    return subprocess.Popen([sys.executable, "-P", "-m", "opl", *argv], stderr=subprocess.PIPE, text=True)


def weights(out):
    return {file.relative_to(out): file.read_bytes() for file in sorted(Path(out).rglob(MODEL))}


@pytest.mark.slow
def test_a_table_survives_the_loss_of_a_machine_and_ends_with_the_bytes_of_local_runs(cluster, tmp_path):
    here, there = tmp_path / "local", tmp_path / "ray"
    with opl(*TABLE, str(here), "--jobs", str(os.cpu_count())) as local:  # one thread each
        assert local.wait(600) == 0
    with opl(*TABLE, str(there), "--on", "ray") as table:
        wait_until(lambda: len(list(there.rglob("metrics.jsonl"))) >= 2, table)  # both machines are busy
        cluster.remove_node(cluster.workers[1], allow_graceful=False)
        assert table.wait(600) == 0, table.stderr.read()
        printed = table.stderr.read()
    assert weights(here) == weights(there)
    assert len(weights(there)) == 4
    assert printed.count(": running") > 4, printed  # the runs of the lost machine were restarted


@pytest.mark.slow
def test_an_interrupted_command_leaves_its_runs_and_the_same_command_re_attaches(cluster, tmp_path):
    code = "import sys, time; time.sleep(15); open(sys.argv[1], 'a').write('x')"
    files = [tmp_path / name for name in ("one", "two", "three")]
    tasks = [Task(file.name, (str(file),), tmp_path / "log", program=("-c", code)) for file in files]

    def interrupt(cancel):
        with RayCluster(tmp_path, cancel) as executor:
            for task in tasks:
                executor.submit(task)
            for event in executor.watch():
                if event.state == "running":
                    raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupt(cancel=False)
    with RayCluster(tmp_path) as executor:
        for task in tasks:
            executor.submit(task)
        ends = [event.name for event in executor.watch() if event.state == "done"]
    assert sorted(ends) == ["one", "three", "two"]
    assert [file.read_text() for file in files] == ["x"] * 3  # none was started twice
    for file in files:
        file.unlink()
    with pytest.raises(KeyboardInterrupt):
        interrupt(cancel=True)
    time.sleep(20)
    assert not any(file.exists() for file in files)


@pytest.mark.slow
def test_a_task_is_skipped_after_a_failure_and_others_go_on(cluster, tmp_path):
    code = "import sys; sys.exit(sys.argv[1] == 'bad')"
    after = {"bad": (), "below": ("bad",), "good": (), "next": ("good",)}
    with RayCluster(tmp_path) as executor:
        for name, needs in after.items():
            executor.submit(Task(name, (name,), tmp_path / name, needs, program=("-c", code)))
        ends = {event.name: event.state for event in executor.watch()}
    assert ends == {"bad": "failed", "below": "skipped", "good": "done", "next": "done"}


@pytest.mark.slow
def test_modules_in_the_working_folder_are_never_run_on_ray(tmp_path, monkeypatch):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    here = tmp_path / "here"
    here.mkdir()
    for name in ("json", "queue", "opl", "colorsys"):
        (here / f"{name}.py").write_text(f"open({str(tmp_path / 'executed')!r}, 'a').write('{name} ')\n")
    monkeypatch.chdir(here)
    task = Task("version", ("--version",), tmp_path / "log")
    with RayCluster(tmp_path) as executor:
        executor.submit(task)
        assert [event.state for event in executor.watch()][-1] == "done"
        import_it = ray.remote(lambda: import_module("colorsys").__file__)
        assert str(here) not in ray.get(import_it.remote())
    assert not (tmp_path / "executed").exists()
