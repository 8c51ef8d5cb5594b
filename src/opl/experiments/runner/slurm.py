"""Tasks as SLURM jobs, by submitit: requeued after preemption or a timeout, and found again by their job ids.

Jobs and this process exchange JSON files in `.slurm` beside the runs: submitit's own results are pickles, which must
not be loaded from a folder that others may have written to.
"""

import hashlib
import json
import os
import shlex
import shutil
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from ...errors import OplError
from ..files import read_limited, write_whole
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
from .executor import ENDED, Event, State, Task, is_hopeless, is_ready
from .local import GRACE

HOME, JOBS = ".slurm", "jobs.json"
TIMEOUTS = 1000  # a run resumes as often as it needs to
POLL = 1.0  # seconds
TERMINATED, REPRIEVE = 143, 120.0


@dataclass(frozen=True)
class Queue:
    """Where SLURM puts jobs; empty settings are left to the cluster's defaults."""

    partition: str = ""
    account: str = ""
    time: int = 1440
    """Minutes until a job is requeued; its run resumes from the last checkpoint."""


class Run:
    """A task as submitit calls it in a job; it writes its state to a file."""

    def __init__(self, task: Task, environment: dict[str, str], note: Path) -> None:
        self.task, self.environment, self.note = task, environment, note

    def __call__(self) -> None:
        """Execute the task; an error tells SLURM of a failure, so that dependent jobs are not started."""
        write_whole(self.note, json.dumps("running"))
        child = start_child(self.task, self.environment)
        with ThreadPoolExecutor(1) as pool:
            self.child, self.end = child, pool.submit(child.wait)
            code = self.end.result()
        if code == TERMINATED:  # by a preemption, whose other signals are on their way
            time.sleep(REPRIEVE)
        write_whole(self.note, json.dumps("failed" if code else "done"))
        if code:
            raise RuntimeError(f"exit code {code}")

    def checkpoint(self) -> Any:
        """Let the run save a checkpoint, from which the same task resumes in the next job."""
        from submitit.helpers import DelayedSubmission

        self.child.terminate()
        wait([self.end], GRACE)
        return DelayedSubmission(Run(self.task, self.environment, self.note))


def describe_job(token_file: str, answer: Path) -> None:
    """Describe the machine of a job in a file."""
    write_whole(answer, json.dumps(describe_machine(token_file)))


class Slurm:
    """Executes tasks as SLURM jobs.

    Args:
        folder: the folder of the runs, which all machines of the cluster must see.
        queue: partition, account and time.
        cancel: whether an interrupted command cancels its jobs, instead of leaving them on the cluster.
        cluster: `local` runs jobs as processes of this machine, for tests.
    """

    patience = LOST

    def __init__(self, folder: Path, queue: Queue, cancel: bool = False, cluster: str = "slurm") -> None:
        self.folder, self.queue, self.cancels, self.cluster = folder.absolute(), queue, cancel, cluster
        self.home = self.folder / HOME
        self.waiting: list[Task] = []
        self.states: dict[str, State] = {}
        self.jobs: dict[str, Any] = {}

    def __enter__(self) -> Self:
        try:
            import submitit
        except ImportError as error:
            raise missing_extra("submitit", "slurm") from error
        if self.cluster == "slurm" and not shutil.which("sbatch"):
            raise OplError("sbatch is not found, so there is no SLURM here: run this on a login node of the cluster.")
        os.environ["PYTHONSAFEPATH"] = "1"  # jobs look for modules where they are installed, not where this is called
        self.home.mkdir(exist_ok=True)
        more = {f"{self.cluster}_python": f"{shlex.quote(sys.executable)} -P", "slurm_max_num_timeout": TIMEOUTS}
        self.engine = submitit.AutoExecutor(self.home / "%j", cluster=self.cluster, **more)
        self.kind = {"slurm": submitit.SlurmJob, "local": submitit.LocalJob}[self.cluster]
        check_machines(self.folder, self._describe_machine)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and self.jobs:
            report_left(len(self.jobs), "SLURM", self.cancels)
            if self.cancels:
                self.cancel()

    def submit(self, task: Task) -> None:
        """Add a task; the job of an earlier command that has not ended is found again."""
        self.states[task.name] = "queued"
        job_id = self._job_ids().get(task.name)
        if job_id is not None:
            job = self.kind(self.home / "%j", job_id)
            if not job.done() and self._note(task.name) not in ENDED:
                self.jobs[task.name] = job
                return
        self.waiting.append(task)

    def watch(self) -> Iterator[Event]:
        """Yield events until all tasks have ended."""
        while self.waiting or self.jobs:
            for task in [task for task in self.waiting if is_hopeless(task, self.states)]:
                self.waiting.remove(task)
                yield self._change(task.name, "skipped")
            for task in list(self.waiting):
                if self.cluster == "slurm" or is_ready(task, self.states):
                    self.waiting.remove(task)
                    self._start(task)
            for name, job in list(self.jobs.items()):
                over = job.done()  # before its note is read, which it writes before it ends
                state = self._note(name)
                if over and state not in ENDED:
                    state = "failed"
                if state != self.states[name]:
                    yield self._change(name, state)
            time.sleep(POLL)

    def cancel(self) -> None:
        """End all jobs."""
        self.waiting.clear()
        for job in self.jobs.values():
            job.cancel()
        self.jobs.clear()

    def _change(self, name: str, state: State) -> Event:
        self.states[name] = state
        if state in ENDED:
            self.jobs.pop(name, None)
        return Event(name, state)

    def _start(self, task: Task) -> None:
        """Submit the job of a task, which depends on the jobs in its `after`."""
        note = self._note_file(task.name)
        note.unlink(missing_ok=True)
        before = [self.jobs[name].job_id for name in task.after if name in self.jobs]
        dependency = {"dependency": f"afterok:{':'.join(before)}", "kill-on-invalid-dep": "yes"} if before else {}
        self._request(task, {"requeue": True, **dependency})
        job = self.engine.submit(Run(task, opl_variables(), note))
        self.jobs[task.name] = job
        write_whole(self.home / JOBS, json.dumps({**self._job_ids(), task.name: job.job_id}, indent=1))

    def _request(self, task: Task, parameters: dict[str, Any]) -> None:
        """Set the resources and parameters of the next job."""
        needs, queue = task.resources, self.queue
        self.engine.update_parameters(
            name=f"opl {task.name}",
            timeout_min=queue.time,
            cpus_per_task=needs.cpus,
            gpus_per_node=needs.gpus,
            slurm_signal_delay_s=int(2 * GRACE) + 30,
            slurm_additional_parameters=parameters,
            **({"mem_gb": needs.memory} if needs.memory else {}),
            **({"slurm_partition": queue.partition} if queue.partition else {}),
            **({"slurm_account": queue.account} if queue.account else {}),
        )

    def _job_ids(self) -> dict[str, str]:
        """The ids of all jobs of this folder, by task."""
        return dict(_read(self.home / JOBS) or {})

    def _note_file(self, name: str) -> Path:
        return self.home / f"{hashlib.sha256(name.encode()).hexdigest()[:16]}.json"

    def _note(self, name: str) -> State:
        """The state that a job has written."""
        state = _read(self._note_file(name))
        return state if state in ("running", *ENDED) else "queued"

    def _describe_machine(self, token_file: str) -> list[Machine]:
        """Describe the machine of a job."""
        answer = self.home / "machine.json"
        answer.unlink(missing_ok=True)
        self._request(Task("check", (), answer), {})
        print("waiting for a job that checks whether it sees the folder of the runs", file=sys.stderr, flush=True)
        job = self.engine.submit(describe_job, token_file, answer)
        try:
            while not job.done() and not answer.exists():
                time.sleep(POLL)
        except KeyboardInterrupt:
            job.cancel()
            raise
        described = _read(answer)
        return [Machine(*described) if described else Machine("the machine of a SLURM job", "", {})]


def _read(file: Path) -> Any:
    """The content of a JSON file; None if there is none, or it is no JSON."""
    try:
        return json.loads(read_limited(file, links=False))
    except (OSError, ValueError, RecursionError):
        return None
