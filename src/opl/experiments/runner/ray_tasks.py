"""Tasks on a Ray cluster: that of `RAY_ADDRESS`, or one on this machine for as long as the command runs.

Tasks are submitted by an actor on the head node. On an existing cluster it outlives the command, so that the same
command finds its tasks again.
"""

import contextlib
import hashlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

from ...errors import OplError
from .children import passed_on, run_child
from .executor import ENDED, Event, State, Task
from .shared_folder import LOST, Versions, look, missing_extra, refuse_blind, token_in

NAMESPACE = "opl"
RETRIES = 10
"""How often a task is started again after the loss of its machine."""
PATIENCE = 120.0  # seconds for a machine to answer
SKIPPED = -1  # the exit code of a task that was not started


def execute(task: Task, environment: dict[str, str], keeper: Any, *codes: int) -> int:
    """Execute a task, unless one that it comes after failed; returns its exit code."""
    if any(codes):
        return SKIPPED
    keeper.note.remote(task.name, "running")  # without waiting, which would lend its cores to another task
    return run_child(task, environment)


class Keeper:
    """Submits tasks and keeps account of them, in a process of the cluster."""

    def __init__(self) -> None:
        self.results: dict[str, Any] = {}
        self.events: list[Event] = []

    def submit(self, tasks: list[Task], environment: dict[str, str]) -> int:
        """Submit the tasks that do not run yet; returns the number of events so far."""
        import ray

        since = len(self.events)
        own = ray.get_runtime_context().current_actor
        for task in tasks:
            if task.name in self.results:
                self.events.append(next(event for event in reversed(self.events) if event.name == task.name))
                continue
            needs = task.resources
            remote = ray.remote(execute).options(
                num_cpus=needs.cpus,
                num_gpus=needs.gpus,
                max_retries=RETRIES,
                name=task.name,
                **({"memory": int(needs.memory * 1e9)} if needs.memory else {}),
            )
            before = [self.results[name] for name in task.after if name in self.results]
            self.events.append(Event(task.name, "queued"))
            self.results[task.name] = remote.remote(task, environment, own, *before)
        return since

    def note(self, name: str, state: State) -> None:
        """Note the state of a task."""
        self.events.append(Event(name, state))

    def wait(self, since: int, seconds: float) -> list[Event]:
        """Return the events after the first `since`; waits for the end of a task if there are none."""
        import ray

        if len(self.events) <= since and self.results:
            ended, _ = ray.wait(list(self.results.values()), timeout=seconds)
            for name in [name for name, result in self.results.items() if result in ended]:
                self.events.append(_end_of(name, self.results.pop(name)))
        return self.events[since:]

    def cancel(self) -> None:
        """End all tasks; their processes end with the workers that started them."""
        import ray

        for result in self.results.values():
            ray.cancel(result, force=True)

    def running(self) -> int:
        """The number of tasks that have not ended."""
        return len(self.results)


def _end_of(name: str, result: Any) -> Event:
    """How a task ended; one whose machines were all lost has failed."""
    import ray

    try:
        code = ray.get(result)
    except ray.exceptions.RayError as error:
        return Event(name, "failed", str(error).strip().splitlines()[-1])
    return Event(name, "skipped" if code == SKIPPED else "failed" if code else "done")


class RayCluster:
    """Executes tasks on a Ray cluster.

    Args:
        folder: of the runs; all machines of the cluster must see it.
        cancel: whether an interrupted command ends its tasks, instead of leaving them to the cluster.
    """

    patience = LOST

    def __init__(self, folder: Path, cancel: bool = False) -> None:
        self.folder, self.cancels = folder.absolute(), cancel
        self.address = os.environ.get("RAY_ADDRESS", "")
        self.tasks: dict[str, Task] = {}
        self.versions = Versions()

    def __enter__(self) -> Self:
        for name in ("RAY_USAGE_STATS_ENABLED", "RAY_worker_niceness"):  # runs are not the background of anything
            os.environ.setdefault(name, "0")
        try:
            import ray
        except ImportError as error:
            raise missing_extra("Ray", "ray") from error
        own: dict[str, Any] = {} if self.address else {"include_dashboard": False}
        try:
            with contextlib.chdir(sys.prefix):  # workers look for modules in the folder where this is called
                ray.init(
                    self.address or "local", namespace=NAMESPACE, log_to_driver=False, logging_level="ERROR", **own
                )
        except ConnectionError as error:
            raise OplError(
                f"no Ray cluster answers at RAY_ADDRESS={self.address}: start one with `ray start --head`, or unset "
                "RAY_ADDRESS for one on this machine."
            ) from error
        try:
            self._check_machines()
            self.keeper = self._keeper()
        except BaseException:
            ray.shutdown()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        import ray

        count = ray.get(self.keeper.running.remote()) if kind is None or issubclass(kind, KeyboardInterrupt) else 0
        if kind is not None and count and self.address and not self.cancels:
            print(
                f"{count} runs are left on the Ray cluster: the same command finds them again, and with "
                "--on-interrupt cancel it ends them.",
                file=sys.stderr,
            )
        elif count:
            self.cancel()
            print(f"{count} runs on Ray were cancelled; the same command resumes them.", file=sys.stderr)
        if not count and kind is None:
            ray.kill(self.keeper)
        ray.shutdown()

    def submit(self, task: Task) -> None:
        """Add a task; Ray starts it once what it comes after is done."""
        self.tasks[task.name] = task

    def watch(self) -> Iterator[Event]:
        """Submit the tasks and yield what happens, until all have ended."""
        import ray

        tasks, self.tasks = self.tasks, {}
        pending = set(tasks)
        since = ray.get(self.keeper.submit.remote(list(tasks.values()), passed_on()))
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
        place = {"num_cpus": 0, "resources": {"node:__internal_head__": 0.001}, "max_concurrency": 4}
        return ray.remote(Keeper).options(name=name, lifetime="detached", get_if_exists=True, **place).remote()

    def _check_machines(self) -> None:
        """Refuse a folder that a machine does not see, and say which versions differ."""
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        nodes = [node["NodeID"] for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU")]
        if not nodes:
            raise OplError("the Ray cluster has no machine with a CPU to run on: add one with `ray start`.")
        with token_in(self.folder) as (file, token):
            remote = ray.remote(look)
            places = [NodeAffinitySchedulingStrategy(node, soft=False) for node in nodes]
            found = [remote.options(num_cpus=0, scheduling_strategy=place).remote(str(file)) for place in places]
            try:
                machines = ray.get(found, timeout=PATIENCE)
            except ray.exceptions.RayError as error:
                reason = str(error).strip().splitlines()[-1]
                raise OplError(
                    f"a machine of the Ray cluster cannot run opl ({reason}): install the same version on all."
                ) from error
            refuse_blind(machines, token, self.folder)
        for machine in machines:
            self.versions.compare(machine)
