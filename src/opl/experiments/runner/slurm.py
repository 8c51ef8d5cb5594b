"""Tasks as SLURM jobs, by submitit: requeued when they are preempted or out of time, found again by their numbers."""

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
from ..files import write_whole
from .children import passed_on, share_of, start_child
from .executor import ENDED, Event, State, Task, is_hopeless, is_ready
from .lifeline import GRACE
from .shared_folder import LOST, Machine, Versions, look, missing_extra, refuse_blind, token_in

HOME = ".slurm"
"""The folder beside the runs for what jobs and this process tell each other."""
JOBS = "jobs.json"
TIMEOUTS = 1000  # a run resumes as often as it needs to
POLL = 1.0  # seconds
TERMINATED, REPRIEVE = 143, 120.0


@dataclass(frozen=True)
class Queue:
    """Where SLURM puts jobs; what is empty is left to the cluster's defaults."""

    partition: str = ""
    account: str = ""
    time: int = 1440
    """Minutes until a job is requeued; its run resumes from the last checkpoint."""


class Run:
    """A task as submitit calls it in a job."""

    def __init__(self, task: Task, environment: dict[str, str], note: Path) -> None:
        self.task, self.environment, self.note = task, environment, note

    def __call__(self) -> None:
        """Execute the task; an error tells SLURM of a failure, so that what comes after is not started."""
        self._tell("running")
        child = start_child(self.task, share_of(self.task, self.environment))
        with ThreadPoolExecutor(1) as pool:
            self.child, self.end = child, pool.submit(child.wait)
            code = self.end.result()
        if code == TERMINATED:  # by a preemption, whose other signals are on their way
            time.sleep(REPRIEVE)
        self._tell("failed" if code else "done")
        if code:
            raise RuntimeError(f"exit code {code}")

    def checkpoint(self) -> Any:
        """Have the run save a checkpoint, for the same task in the next job."""
        from submitit.helpers import DelayedSubmission

        self.child.terminate()
        wait([self.end], GRACE)
        return DelayedSubmission(Run(self.task, self.environment, self.note))

    def _tell(self, state: State) -> None:
        host, _, versions = look(str(self.note))
        write_whole(self.note, json.dumps({"state": state, "host": host, "versions": versions}).encode())


class Look:
    """What a job tells of its machine."""

    def __init__(self, token_file: Path, answer: Path) -> None:
        self.token_file, self.answer = token_file, answer

    def __call__(self) -> None:
        """Write the answer."""
        write_whole(self.answer, json.dumps(look(str(self.token_file))).encode())


class Slurm:
    """Executes tasks as SLURM jobs.

    Args:
        folder: of the runs; all machines of the cluster must see it.
        queue: partition, account and time.
        cancel: whether an interrupted command ends its jobs, instead of leaving them to the cluster.
        cluster: `local` runs jobs as processes of this machine, for tests.
    """

    patience = LOST

    def __init__(self, folder: Path, queue: Queue, cancel: bool = False, cluster: str = "slurm") -> None:
        self.folder, self.queue, self.cancels, self.cluster = folder.absolute(), queue, cancel, cluster
        self.home = self.folder / HOME
        self.waiting: list[Task] = []
        self.states: dict[str, State] = {}
        self.jobs: dict[str, Any] = {}
        self.versions = Versions()

    def __enter__(self) -> Self:
        try:
            import submitit
        except ImportError as error:
            raise missing_extra("submitit", "slurm") from error
        if self.cluster == "slurm" and not shutil.which("sbatch"):
            raise OplError("there is no SLURM here (sbatch is not found): start this on a login node of the cluster.")
        os.environ["PYTHONSAFEPATH"] = "1"  # jobs look for modules where they are installed, not where this is called
        self.home.mkdir(exist_ok=True)
        more = {f"{self.cluster}_python": f"{shlex.quote(sys.executable)} -P", "slurm_max_num_timeout": TIMEOUTS}
        self.engine = submitit.AutoExecutor(self.home / "%j", cluster=self.cluster, **more)
        self.kind = {"slurm": submitit.SlurmJob, "local": submitit.LocalJob}[self.cluster]
        self._check_machine()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None or not self.jobs:
            return
        count = len(self.jobs)
        if self.cancels:
            self.cancel()
            print(f"{count} SLURM jobs were cancelled; the same command resumes their runs.", file=sys.stderr)
        else:
            print(
                f"{count} runs are left to SLURM: the same command finds them again, and with --on-interrupt cancel "
                "it ends them.",
                file=sys.stderr,
            )

    def submit(self, task: Task) -> None:
        """Add a task; one that an earlier command submitted and that has not ended is found again."""
        self.states[task.name] = "queued"
        found = self._known().get(task.name)
        if found is not None:
            job = self.kind(self.home / "%j", found)
            if not job.done() and self._note(task.name).get("state") not in ENDED:
                self.jobs[task.name] = job
                return
        self.waiting.append(task)

    def watch(self) -> Iterator[Event]:
        """Yield what happens, until all tasks have ended."""
        while self.waiting or self.jobs:
            for task in [task for task in self.waiting if is_hopeless(task, self.states)]:
                self.waiting.remove(task)
                yield self._change(task.name, "skipped")
            for task in list(self.waiting):
                if self.cluster == "slurm" or is_ready(task, self.states):
                    self.waiting.remove(task)
                    self._start(task)
            for name, job in list(self.jobs.items()):
                state = self._state_of(name, job)
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

    def _state_of(self, name: str, job: Any) -> State:
        """What the job says of itself, or SLURM of a job that says nothing more."""
        note = self._note(name)
        state: State = note.get("state", "queued")
        if state == "running":
            self.versions.compare(Machine(note["host"], "", note["versions"]))
        if state not in ENDED and job.done():
            state = self._note(name).get("state", "queued")
            return state if state in ENDED else "failed"
        return state

    def _start(self, task: Task) -> None:
        """Submit the job of a task, after those that it comes after."""
        self._note_file(task.name).unlink(missing_ok=True)
        before = [self.jobs[name].job_id for name in task.after if name in self.jobs]
        extra: dict[str, Any] = {"requeue": True}
        if before:
            extra |= {"dependency": f"afterok:{':'.join(before)}", "kill-on-invalid-dep": "yes"}
        self._set(task, extra)
        job = self.engine.submit(Run(task, passed_on(), self._note_file(task.name)))
        self.jobs[task.name] = job
        write_whole(self.home / JOBS, json.dumps({**self._known(), task.name: job.job_id}, indent=1).encode())

    def _set(self, task: Task, extra: dict[str, Any]) -> None:
        needs, queue = task.resources, self.queue
        self.engine.update_parameters(
            name=f"opl {task.name}",
            timeout_min=queue.time,
            cpus_per_task=needs.cpus,
            gpus_per_node=needs.gpus,
            slurm_signal_delay_s=int(2 * GRACE) + 30,
            slurm_additional_parameters=extra,
            **({"mem_gb": needs.memory} if needs.memory else {}),
            **({"slurm_partition": queue.partition} if queue.partition else {}),
            **({"slurm_account": queue.account} if queue.account else {}),
        )

    def _known(self) -> dict[str, str]:
        """The numbers of all jobs of this folder, by task."""
        return dict(_read(self.home / JOBS))

    def _note_file(self, name: str) -> Path:
        return self.home / f"{hashlib.sha256(name.encode()).hexdigest()[:16]}.json"

    def _note(self, name: str) -> dict[str, Any]:
        return dict(_read(self._note_file(name)))

    def _check_machine(self) -> None:
        """Refuse a folder that a job does not see, and say which versions differ."""
        answer = self.home / "machine.json"
        answer.unlink(missing_ok=True)
        with token_in(self.folder) as (file, token):
            self._set(Task("check", (), answer), {})
            print("waiting for a job that looks whether it sees the folder of the runs", file=sys.stderr, flush=True)
            job = self.engine.submit(Look(file, answer))
            try:
                while not job.done() and not answer.exists():
                    time.sleep(POLL)
            except KeyboardInterrupt:
                job.cancel()
                raise
            told = _read(answer) if answer.exists() else None
        machine = Machine(*told) if told else Machine("the machine of a SLURM job", "", {})
        refuse_blind([machine], token, self.folder)
        self.versions.compare(machine)


def _read(file: Path) -> Any:
    """The content of a JSON file; empty if there is none."""
    return json.loads(file.read_text()) if file.exists() else {}
