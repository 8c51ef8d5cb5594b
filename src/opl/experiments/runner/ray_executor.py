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
from .cluster import (
    LOST,
    Machine,
    check_machines,
    describe_machine,
    missing_extra,
    opl_variables,
    report_left,
    start_child,
)
from .executor import ENDED, Event, State, Task

NAMESPACE = "opl"
RETRIES = 10
"""How often a task is started again after the loss of its machine."""
ANSWER = 120.0  # seconds for a machine to answer
SKIPPED = -1  # the exit code of a task that was not started


def execute(task: Task, environment: dict[str, str], keeper: Any, *codes: int) -> int:
    """Execute a task, unless a task that it comes after failed; returns its exit code."""
    if any(codes):
        return SKIPPED
    keeper.note.remote(task.name, "running")  # without waiting, which would lend its cores to another task
    return start_child(task, environment).wait()


class Keeper:
    """Submits tasks and records their events, in a process of the cluster."""

    def __init__(self) -> None:
        self.results: dict[str, Any] = {}
        self.events: list[Event] = []

    def submit(self, tasks: list[Task], environment: dict[str, str]) -> int:
        """Submit the tasks that do not run yet; returns the number of events so far."""
        import ray

        since = len(self.events)
        keeper = ray.get_runtime_context().current_actor
        for task in tasks:
            if task.name in self.results:
                self.events.append(next(event for event in reversed(self.events) if event.name == task.name))
                continue
            needs = task.resources
            memory = {"memory": int(needs.memory * 1e9)} if needs.memory else {}
            options = {"num_cpus": needs.cpus, "num_gpus": needs.gpus, "max_retries": RETRIES, "name": task.name}
            before = [self.results[name] for name in task.after if name in self.results]
            self.events.append(Event(task.name, "queued"))
            remote = ray.remote(execute).options(**options, **memory)
            self.results[task.name] = remote.remote(task, environment, keeper, *before)
        return since

    def note(self, name: str, state: State) -> None:
        """Record the state of a task."""
        self.events.append(Event(name, state))

    def wait(self, since: int, seconds: float) -> list[Event]:
        """Return the events after the first `since`; if there are none, wait for the end of a task."""
        import ray

        if len(self.events) <= since and self.results:
            ended, _ = ray.wait(list(self.results.values()), timeout=seconds)
            for name in [name for name, result in self.results.items() if result in ended]:
                self.events.append(_end_of(name, self.results.pop(name)))
        return self.events[since:]

    def cancel(self) -> None:
        """End all tasks; their processes end with the Ray workers that started them."""
        import ray

        for result in self.results.values():
            ray.cancel(result, force=True)

    def running(self) -> int:
        """The number of tasks that have not ended."""
        return len(self.results)


def _end_of(name: str, result: Any) -> Event:
    """How a task ended; a task whose machines were all lost has failed."""
    import ray

    try:
        code = ray.get(result)
    except ray.exceptions.RayError as error:
        return Event(name, "failed", str(error).strip().splitlines()[-1])
    return Event(name, "skipped" if code == SKIPPED else "failed" if code else "done")


class RayCluster:
    """Executes tasks on a Ray cluster.

    Args:
        folder: the folder of the runs, which all machines of the cluster must see.
        cancel: whether an interrupted command cancels its tasks, instead of leaving them on the cluster.
    """

    patience = LOST

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
            raise missing_extra("Ray", "ray") from error
        options: dict[str, Any] = {} if self.address else {"include_dashboard": False}
        try:
            with contextlib.chdir(sys.prefix):  # workers look for modules in the folder where this is called
                address = self.address or "local"
                ray.init(address, namespace=NAMESPACE, log_to_driver=False, logging_level="ERROR", **options)
        except ConnectionError as error:
            raise OplError(
                f"no Ray cluster answers at RAY_ADDRESS={self.address}: start one with `ray start --head`, or unset "
                "RAY_ADDRESS to use this machine."
            ) from error
        try:
            check_machines(self.folder, _describe_nodes)
            self.keeper = self._keeper()
        except BaseException:
            ray.shutdown()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        import ray

        count = ray.get(self.keeper.running.remote()) if kind is None or issubclass(kind, KeyboardInterrupt) else 0
        leave = kind is not None and self.address and not self.cancels
        if count:
            if not leave:
                self.cancel()
            report_left(count, "Ray", cancelled=not leave)
        elif kind is None:
            ray.kill(self.keeper)
        ray.shutdown()

    def submit(self, task: Task) -> None:
        """Add a task; Ray starts it when the tasks in its `after` are done."""
        self.tasks[task.name] = task

    def watch(self) -> Iterator[Event]:
        """Submit the tasks and yield events until all have ended."""
        import ray

        tasks, self.tasks = self.tasks, {}
        pending = set(tasks)
        since = ray.get(self.keeper.submit.remote(list(tasks.values()), opl_variables()))
        while pending:
            events = ray.get(self.keeper.wait.remote(since, 1.0))
            since += len(events)
            for event in events:
                if event.name in pending:
                    pending -= {event.name} if event.state in ENDED else set()
                    yield event

    def cancel(self) -> None:
        """End all tasks."""
        import ray

        ray.get(self.keeper.cancel.remote())

    def _keeper(self) -> Any:
        """The actor of this folder, which an earlier command may have started."""
        import ray

        name = hashlib.sha256(str(self.folder).encode()).hexdigest()[:16]
        head = {"num_cpus": 0, "resources": {"node:__internal_head__": 0.001}, "max_concurrency": 4}
        return ray.remote(Keeper).options(name=name, lifetime="detached", get_if_exists=True, **head).remote()


def _describe_nodes(token_file: str) -> list[Machine]:
    """Describe all machines of the cluster that have a CPU."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    nodes = [node["NodeID"] for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU")]
    if not nodes:
        raise OplError("the Ray cluster has no machine with a CPU: add one with `ray start`.")
    remote = ray.remote(describe_machine)
    strategies = [NodeAffinitySchedulingStrategy(node, soft=False) for node in nodes]
    asked = [remote.options(num_cpus=0, scheduling_strategy=strategy).remote(token_file) for strategy in strategies]
    try:
        machines: list[Machine] = ray.get(asked, timeout=ANSWER)
    except ray.exceptions.RayError as error:
        reason = str(error).strip().splitlines()[-1]
        raise OplError(
            f"a machine of the Ray cluster cannot run opl ({reason}): install the same version on all machines."
        ) from error
    return machines
