"""Tasks on a Ray cluster: the one at `RAY_ADDRESS`, or a new one on this machine while the command runs.

Ray starts a task after the tasks that it needs, and restarts it elsewhere if its machine is lost. Tasks belong to an
actor on the head node, which on an existing cluster outlives the command, so that the same command re-attaches to them.
"""

import contextlib
import hashlib
import os
import sys
from typing import Any

from ...errors import OplError
from . import cluster
from .executor import State, Task, end_processes

RETRIES = 10
"""How often a task is started again after the loss of its machine."""


def execute(task: Task, environment: dict[str, str], keeper: Any, *_: None) -> None:
    """Execute a task. An error tells Ray not to start the tasks that have this result among their arguments."""
    keeper.count_start.remote(task.name)  # without waiting, which would lend its cores to another task
    process = cluster.start_child(task, environment)
    code = process.wait()
    end_processes([process])
    if code:
        raise RuntimeError(f"exit code {code}")


class Keeper:
    """Owns the tasks of a folder, in a process of the cluster."""

    def __init__(self) -> None:
        import ray

        self.ray, self.actor = ray, ray.get_runtime_context().current_actor
        self.results: dict[str, Any] = {}
        """The future result of each task that has not ended."""
        self.starts: dict[str, int] = {}

    def submit(self, task: Task, environment: dict[str, str]) -> None:
        """Submit a task to start after the tasks in its `after`; a task that has not ended is not submitted again."""
        if task.name in self.results:
            return
        self.starts[task.name] = 0
        needs, before = task.resources, [self.results[name] for name in task.after if name in self.results]
        memory = int(needs.memory * 1e9) or None
        remote = self.ray.remote(execute).options(
            name=task.name, num_cpus=needs.cpus, num_gpus=needs.gpus, memory=memory, max_retries=RETRIES
        )
        self.results[task.name] = remote.remote(task, environment, self.actor, *before)

    def count_start(self, name: str) -> None:
        """Count a start of a task."""
        self.starts[name] += 1

    def progress(self, name: str) -> tuple[State, int, str]:
        """Return the state of a task, how often it started, and why it failed; a task that has ended is forgotten."""
        starts, result = self.starts[name], self.results[name]
        if not self.ray.wait([result], timeout=0)[0]:
            return "running" if starts else "queued", starts, ""
        del self.results[name]
        try:
            self.ray.get(result)
        except self.ray.exceptions.RayError as error:  # its command failed, its machine was lost, or it was cancelled
            return "failed", starts, str(error).strip().splitlines()[-1]
        return "done", starts, ""

    def is_idle(self) -> bool:
        """Return whether all tasks have ended."""
        return not self.results

    def cancel(self) -> None:
        """End all tasks; their processes end with the Ray workers that started them."""
        for result in self.results.values():
            self.ray.cancel(result, force=True)


class RayCluster(cluster.Cluster):
    """Executes tasks on a Ray cluster."""

    name = "Ray"
    interval = 0.2

    def connect(self) -> None:
        """Connect to the cluster of `RAY_ADDRESS`, or start one, and find or start the actor of the folder."""
        for name in ("RAY_USAGE_STATS_ENABLED", "RAY_worker_niceness"):  # no usage statistics, no lower priority
            os.environ.setdefault(name, "0")
        self.ray = ray = cluster.import_engine("ray", "ray")
        self.starts: dict[str, int] = {}
        address = os.environ.get("RAY_ADDRESS", "")
        options: dict[str, Any] = {} if address else {"include_dashboard": False}
        self.cancels |= not address
        try:
            with contextlib.chdir(sys.prefix):  # workers look for modules in the folder where this is called
                ray.init(address or "local", namespace="opl", log_to_driver=False, logging_level="ERROR", **options)
        except ConnectionError as error:
            raise OplError(
                f"no Ray cluster answers at RAY_ADDRESS={address}: start one with `ray start --head`, or unset "
                "RAY_ADDRESS to use this machine."
            ) from error
        name = hashlib.sha256(str(self.folder).encode()).hexdigest()[:16]
        head = {"num_cpus": 0, "resources": {"node:__internal_head__": 0.001}}
        self.keeper = ray.remote(Keeper).options(name=name, lifetime="detached", get_if_exists=True, **head).remote()

    def disconnect(self) -> None:
        """End the connection, and the actor if it has no tasks."""
        if self.ray.get(self.keeper.is_idle.remote()):
            self.ray.kill(self.keeper)
        self.ray.shutdown()

    def describe_machines(self, token_file: str) -> list[cluster.Machine]:
        """Describe all machines of the cluster that have a CPU."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy as On

        nodes = [node["NodeID"] for node in self.ray.nodes() if node["Alive"] and node["Resources"].get("CPU")]
        if not nodes:
            raise OplError("the Ray cluster has no machine with a CPU: add one with `ray start`.")
        remote = self.ray.remote(cluster.describe_machine).options
        answers = [remote(num_cpus=0, scheduling_strategy=On(node, soft=False)).remote(token_file) for node in nodes]
        try:
            return list(self.ray.get(answers))
        except self.ray.exceptions.RayError as error:
            reason = str(error).strip().splitlines()[-1]
            raise OplError(
                f"a machine of the Ray cluster cannot run opl ({reason}): install the same version on all machines."
            ) from error

    def start(self, task: Task) -> State:
        """Submit a task, or re-attach to it if an earlier command submitted it and it has not ended."""
        self.ray.get(self.keeper.submit.remote(task, cluster.opl_variables()))
        return "queued"

    def state(self, name: str) -> State:
        """Return the state of a task; announce a task again that restarts after the loss of its machine."""
        state, starts, self.reasons[name] = self.ray.get(self.keeper.progress.remote(name))
        if starts > self.starts.get(name, 0):
            self.starts[name], self.states[name] = starts, "queued"
        return state  # type: ignore[no-any-return]

    def cancel(self) -> None:
        """End all tasks."""
        self.ray.get(self.keeper.cancel.remote())
