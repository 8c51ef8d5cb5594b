"""Tasks on a Ray cluster: that of `RAY_ADDRESS`, or one on this machine for as long as the command runs.

Tasks are submitted by an actor on the head node. On an existing cluster it outlives the command, so that the same
command re-attaches to its tasks.
"""

import contextlib
import hashlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

from ...errors import OplError
from . import cluster
from .executor import ENDED, Event, Task
from .local import end_processes

RETRIES = 10
"""How often a task is started again after the loss of its machine."""
ANSWER = 120.0  # seconds for a machine to answer
SKIPPED = -1000  # the exit code of a task that was not started


def execute(task: Task, environment: dict[str, str], keeper: Any, *codes: int) -> int:
    """Execute a task, unless a task that it comes after failed; returns its exit code."""
    if any(codes):
        return SKIPPED
    keeper.note.remote(Event(task.name, "running"))  # without waiting, which would lend its cores to another task
    process = cluster.start_child(task, environment)
    code = process.wait()
    end_processes([process])
    return int(code)


class Keeper:
    """Submits tasks and records their events, in a process of the cluster."""

    def __init__(self) -> None:
        import ray

        self.ray, self.actor = ray, ray.get_runtime_context().current_actor
        self.results: dict[str, Any] = {}
        self.events: list[Event] = []

    def submit(self, tasks: list[Task], environment: dict[str, str]) -> int:
        """Submit the tasks that do not run yet; returns the number of events so far."""
        since = len(self.events)
        for task in tasks:
            if task.name in self.results:
                self.note(next(event for event in reversed(self.events) if event.name == task.name))
                continue
            self.note(Event(task.name, "queued"))
            needs, before = task.resources, [self.results[name] for name in task.after if name in self.results]
            memory = {"memory": int(needs.memory * 1e9)} if needs.memory else {}
            options = {"num_cpus": needs.cpus, "num_gpus": needs.gpus, "max_retries": RETRIES, "name": task.name}
            remote = self.ray.remote(execute).options(**options, **memory)
            self.results[task.name] = remote.remote(task, environment, self.actor, *before)
        return since

    def note(self, event: Event) -> None:
        """Record an event."""
        self.events.append(event)

    def wait(self, since: int, seconds: float) -> list[Event]:
        """Return the events after the first `since`; if there are none, wait for the end of a task."""
        if len(self.events) <= since and self.results:
            ended, _ = self.ray.wait(list(self.results.values()), timeout=seconds)
            for name in [name for name, result in self.results.items() if result in ended]:
                self.note(self._end(name, self.results.pop(name)))
        return self.events[since:]

    def _end(self, name: str, result: Any) -> Event:
        try:
            code = self.ray.get(result)
        except self.ray.exceptions.RayError as error:  # all machines that tried it were lost, or it was cancelled
            return Event(name, "failed", str(error).strip().splitlines()[-1])
        return Event(name, "skipped" if code == SKIPPED else "failed" if code else "done")

    def running(self) -> int:
        """The number of tasks that have not ended."""
        return len(self.results)

    def cancel(self) -> None:
        """End all tasks; their processes end with the Ray workers that started them."""
        for result in self.results.values():
            self.ray.cancel(result, force=True)


class RayCluster:
    """Executes tasks on a Ray cluster.

    Args:
        folder: the folder of the runs, which all machines of the cluster must see.
        cancel: whether an interrupted command cancels its tasks, instead of leaving them on the cluster.
    """

    patience = cluster.LOST

    def __init__(self, folder: Path, cancel: bool = False) -> None:
        self.folder, self.cancels = folder.absolute(), cancel
        self.address = os.environ.get("RAY_ADDRESS", "")
        self.tasks: dict[str, Task] = {}

    def __enter__(self) -> Self:
        for name in ("RAY_USAGE_STATS_ENABLED", "RAY_worker_niceness"):  # no usage statistics, no lower priority
            os.environ.setdefault(name, "0")
        try:
            import ray
        except ImportError as error:
            raise cluster.missing_extra("Ray", "ray") from error
        self.ray = ray
        options: dict[str, Any] = {} if self.address else {"include_dashboard": False}
        try:
            with contextlib.chdir(sys.prefix):  # workers look for modules in the folder where this is called
                address = self.address or "local"
                ray.init(address, namespace="opl", log_to_driver=False, logging_level="ERROR", **options)
        except ConnectionError as error:
            raise OplError(
                f"no Ray cluster answers at RAY_ADDRESS={self.address}: start one with `ray start --head`, or unset "
                "RAY_ADDRESS to use this machine."
            ) from error
        try:
            cluster.check_machines(self.folder, self._describe_nodes)
        except BaseException:
            ray.shutdown()
            raise
        name = hashlib.sha256(str(self.folder).encode()).hexdigest()[:16]  # an earlier command may have started it
        head = {"num_cpus": 0, "resources": {"node:__internal_head__": 0.001}, "max_concurrency": 4}
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

    def submit(self, task: Task) -> None:
        """Add a task; Ray starts it when the tasks in its `after` are done."""
        self.tasks[task.name] = task

    def watch(self) -> Iterator[Event]:
        """Submit the tasks and yield events until all have ended."""
        pending, tasks, self.tasks = set(self.tasks), list(self.tasks.values()), {}
        since = self.ray.get(self.keeper.submit.remote(tasks, cluster.opl_variables()))
        while pending:
            events = self.ray.get(self.keeper.wait.remote(since, 1.0))
            since += len(events)
            for event in events:
                if event.name in pending:
                    pending -= {event.name} if event.state in ENDED else set()
                    yield event

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
