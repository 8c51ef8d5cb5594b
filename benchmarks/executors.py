"""Run many short tasks through an executor: none may be lost or run twice, memory stays flat; and time the pool.

    python benchmarks/executors.py tasks --on local --count 500 --at-once 25
    python benchmarks/executors.py tasks --on ray --count 500 --at-once 25
    python benchmarks/executors.py pool --count 60

`tasks` runs processes that sleep for a second and then write a line. `pool` runs short processes, two in parallel,
alternately through the executor and through a loop that polls them every 0.2 s, and prints the ratio of the times.
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from opl.experiments.runner.executor import Resources, Task
from opl.experiments.runner.local import Local

SLEEP = "import sys, time; time.sleep(float(sys.argv[2])); open(sys.argv[1], 'a').write('x\\n')"


def memory() -> float:
    """Return the resident memory of this process in megabytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 1e6


def build(given: argparse.Namespace, folder: Path):
    if given.on == "local":
        return Local(given.at_once)
    from opl.experiments.runner.ray_executor import RayCluster

    return RayCluster(folder)


def run_tasks(given: argparse.Namespace) -> int:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if given.on == "ray" and not os.environ.get("RAY_ADDRESS"):
            return on_cluster(given)
        samples, ends = [], {}
        began = time.perf_counter()
        with build(given, folder) as executor:
            for number in range(given.count):
                file = folder / f"{number}.txt"
                log = folder / f"{number}.log"
                argv = (str(file), str(given.seconds))
                executor.submit(Task(str(number), argv, log, (), Resources(1), ("-c", SLEEP)))
            for event in executor.watch():
                if event.state in ("done", "failed", "skipped"):
                    ends.setdefault(event.name, []).append(event.state)
                    if len(ends) % max(1, given.count // 10) == 0:
                        samples.append(memory())
        seconds = time.perf_counter() - began
        lines = [len(file.read_text().splitlines()) for file in folder.glob("*.txt")]
    lost = given.count - len(lines)
    doubled = sum(count > 1 for count in lines) + sum(len(states) > 1 for states in ends.values())
    failed = sum(states != ["done"] for states in ends.values())
    print(
        f"{given.on}: {given.count} tasks of {given.seconds:g} s, {given.at_once} at a time: {seconds:.0f} s; "
        f"lost {lost}, doubled {doubled}, not done {failed}; the driver's memory after each tenth, MB: "
        + " ".join(f"{sample:.0f}" for sample in samples)
    )
    return int(bool(lost or doubled or failed))


def on_cluster(given: argparse.Namespace) -> int:
    """Run the tasks on a Ray cluster of two nodes that are processes on this machine."""
    from ray.cluster_utils import Cluster

    os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112 (the name that Ray reads)
    store = {"object_store_memory": 80 * 2**20}
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False, **store})
    for share in (given.at_once // 2, given.at_once - given.at_once // 2):
        cluster.add_node(num_cpus=share, **store)
    os.environ["RAY_ADDRESS"] = cluster.address
    try:
        return run_tasks(given)
    finally:
        cluster.shutdown()


def poll(count: int, folder: Path) -> None:
    """A loop that polls its processes."""
    waiting, running = list(range(count)), []
    while waiting or running:
        running = [process for process in running if process.poll() is None]
        while waiting and len(running) < 2:
            argv = [sys.executable, "-P", "-c", SLEEP, str(folder / f"{waiting.pop()}.txt"), "0.3"]
            running.append(subprocess.Popen(argv))
        time.sleep(0.2)


def pool(count: int, folder: Path) -> None:
    with Local(2) as executor:
        for number in range(count):
            argv = (str(folder / f"{number}.txt"), "0.3")
            executor.submit(Task(str(number), argv, folder / "log", (), Resources(1), ("-c", SLEEP)))
        for _ in executor.watch():
            pass


def compare(given: argparse.Namespace) -> int:
    times: dict[str, list[float]] = {"loop": [], "pool": []}
    with tempfile.TemporaryDirectory() as name:
        pool(2, Path(name))  # imports
        for _ in range(3):
            for kind, run in (("loop", poll), ("pool", pool)):
                began = time.perf_counter()
                run(given.count // 3, Path(name))
                times[kind].append(time.perf_counter() - began)
    loop, ours = (statistics.median(times[kind]) for kind in ("loop", "pool"))
    print(
        f"{given.count // 3} tasks of 0.3 s, 2 at a time: loop {loop:.2f} s, pool {ours:.2f} s, ratio {ours / loop:.2f}"
    )
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["tasks", "pool"])
    parser.add_argument("--on", choices=["local", "ray"], default="local")
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--at-once", type=int, default=25)
    given = parser.parse_args()
    return run_tasks(given) if given.what == "tasks" else compare(given)


if __name__ == "__main__":
    sys.exit(main())
