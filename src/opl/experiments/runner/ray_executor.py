"""Tasks on a Ray cluster: that of `RAY_ADDRESS`, or one on this machine for as long as the command runs.

Tasks are submitted by an actor on the head node. On an existing cluster it outlives the command, so that the same
command re-attaches to its tasks.
"""

import contextlib
import hashlib
import os
import sys
from pathlib import Path
from typing import Any, Self

from ...errors import OplError
from . import cluster
from .executor import Executor, State, Task, end_processes

RETRIES = 10
"""How often a task is started again after the loss of its machine."""
ANSWER = 120.0  # seconds for a machine to answer
SKIPPED = -1000  # the exit code of a task that was not started


def execute(task: Task, environment: dict[str, str], keeper: Any, *codes: int) -> int:
    """Execute a task, unless a task that it comes after failed; returns its exit code."""
    if any(codes):
        return SKIPPED
    keeper.count_start.remote(task.name)  # without waiting, which would lend its cores to another task
    process = cluster.start_child(task, environment)
    code = process.wait()
    end_processes([process])
    return int(code)


class Keeper:
    """Submits tasks and knows how far they are, in a process of the cluster."""

    def __init__(self) -> None:
        import ray

        self.ray, self.actor = ray, ray.get_runtime_context().current_actor
        self.results: dict[str, Any] = {}
        self.starts: dict[str, int] = {}

    def submit(self, task: Task, environment: dict[str, str]) -> None:
        """Submit a task, which Ray starts after the tasks in its `after`; one that runs is not submitted again."""
        if task.name in self.results:
            return
        self.starts[task.name] = 0
        needs, before = task.resources, [self.results[name] for name in task.after if name in self.results]
        memory = {"memory": int(needs.memory * 1e9)} if needs.memory else {}
        options = {"num_cpus": needs.cpus, "num_gpus": needs.gpus, "max_retries": RETRIES, "name": task.name}
        remote = self.ray.remote(execute).options(**options, **memory)
        self.results[task.name] = remote.remote(task, environment, self.actor, *before)

    def count_start(self, name: str) -> None:
        """Note that a task has started."""
        self.starts[name] += 1

    def progress(self, name: str) -> tuple[State, int, str]:
        """Return the state of a task, how often it started, and why it failed if its log cannot tell.

        A task that has ended is forgotten, so that it can be submitted again.
        """
        starts, result = self.starts[name], self.results[name]
        if not self.ray.wait([result], timeout=0)[0]:
            return "running" if starts else "queued", starts, ""
        del self.results[name]
        try:
            code = self.ray.get(result)
        except self.ray.exceptions.RayError as error:  # its machine was lost, or it was cancelled
            return "failed", starts, str(error).strip().splitlines()[-1]
        return "skipped" if code == SKIPPED else "failed" if code else "done", starts, ""

    def running(self) -> int:
        """The number of tasks that have not ended."""
        return len(self.results)

    def cancel(self) -> None:
        """End all tasks; their processes end with the Ray workers that started them."""
        for result in self.results.values():
            self.ray.cancel(result, force=True)


class RayCluster(Executor):
    """Executes tasks on a Ray cluster, all of whose machines must see the folder of the runs.

    An interrupted command leaves its tasks on an existing cluster or, with `cancel`, cancels them.
    """

    patience = cluster.LOST
    interval = 0.2
    ahead = True

    def __init__(self, folder: Path, cancel: bool = False) -> None:
        super().__init__()
        self.folder, self.cancels = folder.absolute(), cancel
        self.address = os.environ.get("RAY_ADDRESS", "")
        self.starts: dict[str, int] = {}

    def __enter__(self) -> Self:
        for name in ("RAY_USAGE_STATS_ENABLED", "RAY_worker_niceness"):  # no usage statistics, no lower priority
            os.environ.setdefault(name, "0")
        self.ray = ray = cluster.import_engine("ray", "ray")
        options: dict[str, Any] = {} if self.address else {"include_dashboard": False}
        try:
            with contextlib.chdir(sys.prefix):  # workers look for modules in the folder where this is called
                address = self.address or "local"
                ray.init(address, namespace="opl", log_to_driver=False, logging_level="ERROR", **options)
            cluster.check_machines(self.folder, self._describe_nodes)
        except ConnectionError as error:
            raise OplError(
                f"no Ray cluster answers at RAY_ADDRESS={self.address}: start one with `ray start --head`, or unset "
                "RAY_ADDRESS to use this machine."
            ) from error
        except BaseException:
            ray.shutdown()
            raise
        name = hashlib.sha256(str(self.folder).encode()).hexdigest()[:16]  # an earlier command may have started it
        head = {"num_cpus": 0, "resources": {"node:__internal_head__": 0.001}}
        self.keeper = ray.remote(Keeper).options(name=name, lifetime="detached", get_if_exists=True, **head).remote()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        count = self.ray.get(self.keeper.running.remote()) if kind in (None, KeyboardInterrupt) else 0
        leave = kind is not None and self.address and not self.cancels
        if count:
            if not leave:
                self.cancel()
            cluster.report_left(count, "Ray", cancelled=not leave)
        elif kind is None:
            self.ray.kill(self.keeper)
        self.ray.shutdown()

    def start(self, task: Task) -> State:
        """Submit a task; the task of an earlier command that has not ended is found again."""
        self.ray.get(self.keeper.submit.remote(task, cluster.opl_variables()))
        return "queued"

    def state(self, name: str) -> State:
        """Return the state of a task; one that starts again after the loss of its machine is announced again."""
        state, starts, self.reasons[name] = self.ray.get(self.keeper.progress.remote(name))
        if starts > self.starts.get(name, 0):
            self.starts[name], self.states[name] = starts, "queued"
        return state  # type: ignore[no-any-return]

    def cancel(self) -> None:
        """End all tasks."""
        self.ray.get(self.keeper.cancel.remote())

    def _describe_nodes(self, token_file: str) -> list[cluster.Machine]:
        """Describe all machines of the cluster that have a CPU."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy as On

        nodes = [node["NodeID"] for node in self.ray.nodes() if node["Alive"] and node["Resources"].get("CPU")]
        if not nodes:
            raise OplError("the Ray cluster has no machine with a CPU: add one with `ray start`.")
        remote = self.ray.remote(cluster.describe_machine).options
        answers = [remote(num_cpus=0, scheduling_strategy=On(node, soft=False)).remote(token_file) for node in nodes]
        try:
            machines: list[cluster.Machine] = self.ray.get(answers, timeout=ANSWER)
        except self.ray.exceptions.RayError as error:
            reason = str(error).strip().splitlines()[-1]
            raise OplError(
                f"a machine of the Ray cluster cannot run opl ({reason}): install the same version on all machines."
            ) from error
        return machines
