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
from pathlib import Path
from typing import Any, Self

from ...errors import OplError
from ..files import read_limited, write_whole
from . import cluster
from .executor import ENDED, GRACE, Executor, State, Task, end_processes, run_tasks

HOME, JOBS, CHECK = ".slurm", "jobs.json", "check"
TIMEOUTS = 1000  # a run resumes as often as it needs to
TERMINATED, REPRIEVE = 143, 120.0


class Run:
    """A task as submitit calls it in a job; it writes its state to a file."""

    def __init__(self, task: Task, environment: dict[str, str], note: Path) -> None:
        self.task, self.environment, self.note = task, environment, note
        self.child: Any = None

    def __call__(self) -> None:
        """Execute the task; an error tells SLURM of a failure, so that dependent jobs are not started."""
        write_whole(self.note, json.dumps("running"))
        self.child = cluster.start_child(self.task, self.environment)
        code = self.child.wait()
        end_processes([self.child])
        if code == TERMINATED:  # by a preemption, whose other signals are on their way
            time.sleep(REPRIEVE)
        write_whole(self.note, json.dumps("failed" if code else "done"))
        if code:
            raise RuntimeError(f"exit code {code}")

    def checkpoint(self) -> Any:
        """Let the run save a checkpoint, from which the same task resumes in the next job."""
        from submitit.helpers import DelayedSubmission

        end_processes([self.child] if self.child else [])
        return DelayedSubmission(Run(self.task, self.environment, self.note))


class Slurm(Executor):
    """Executes tasks as SLURM jobs, whose machines must all see the folder of the runs.

    An interrupted command leaves its jobs on the cluster or, with `cancel`, cancels them. The engine `local` runs jobs
    as processes of this machine, for tests. `queue` are parameters of submitit for all jobs; empty ones are left out.
    """

    patience = cluster.LOST
    interval = 1.0

    def __init__(self, folder: Path, cancel: bool = False, engine: str = "slurm", **queue: Any) -> None:
        super().__init__()
        self.home, self.engine, self.cancels, self.queue = folder.absolute() / HOME, engine, cancel, queue
        self.ahead = engine == "slurm"
        self.jobs: dict[str, Any] = {}

    def __enter__(self) -> Self:
        submitit = cluster.import_engine("submitit", "slurm")
        if self.ahead and not shutil.which("sbatch"):
            raise OplError("sbatch is not found, so there is no SLURM here: run this on a login node of the cluster.")
        os.environ["PYTHONSAFEPATH"] = "1"  # jobs look for modules where they are installed, not where this is called
        self.home.mkdir(exist_ok=True)
        more = {f"{self.engine}_python": f"{shlex.quote(sys.executable)} -P", "slurm_max_num_timeout": TIMEOUTS}
        self.submitter = submitit.AutoExecutor(self.home / "%j", cluster=self.engine, **more)
        self.kind = {"slurm": submitit.SlurmJob, "local": submitit.LocalJob}[self.engine]
        try:
            cluster.check_machines(self.home.parent, self._describe_machine)
        except BaseException:
            self.cancel()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and self.running:
            cluster.report_left(len(self.running), "SLURM", self.cancels)
            if self.cancels:
                self.cancel()

    def cancel(self) -> None:
        """End all jobs."""
        self.waiting.clear()
        for name in self.running:
            self.jobs[name].cancel()

    def start(self, task: Task) -> State:
        """Submit the job of a task, after those in its `after`; the job of an earlier command is found again."""
        ids, note = _read(self.home / JOBS) or {}, self._note(task.name)
        if task.name in ids and task.name != CHECK:
            self.jobs[task.name] = self.kind(self.home / "%j", ids[task.name])
            if (state := self.state(task.name)) not in ENDED:
                return state
        note.unlink(missing_ok=True)
        before = [self.jobs[name].job_id for name in task.after if name in self.running]
        dependency = {"dependency": f"afterok:{':'.join(before)}", "kill-on-invalid-dep": "yes"} if before else {}
        chosen = {**self.queue, "mem_gb": task.resources.memory}
        self.submitter.update_parameters(
            name=f"opl {task.name}",
            cpus_per_task=task.resources.cpus,
            gpus_per_node=task.resources.gpus,
            slurm_signal_delay_s=int(2 * GRACE) + 30,
            slurm_additional_parameters={"requeue": True, **dependency},
            **{name: value for name, value in chosen.items() if value},
        )
        job = self.jobs[task.name] = self.submitter.submit(Run(task, cluster.opl_variables(), note))
        write_whole(self.home / JOBS, json.dumps({**ids, task.name: job.job_id}, indent=1))
        return "queued"

    def state(self, name: str) -> State:
        """Return the state that a job has written; a job that is over without one has failed."""
        over = self.jobs[name].done()  # before its note is read, which it writes before it ends
        state = _read(self._note(name))
        if state in ENDED:
            return state  # type: ignore[no-any-return]
        return "failed" if over else "running" if state == "running" else "queued"

    def _note(self, name: str) -> Path:
        return self.home / f"{hashlib.sha256(name.encode()).hexdigest()[:16]}.json"

    def _describe_machine(self, token_file: str) -> list[cluster.Machine]:
        """Describe the machine of a job."""
        answer = self.home / "machine.json"
        answer.unlink(missing_ok=True)
        print("waiting for a job that checks whether it sees the folder of the runs", file=sys.stderr, flush=True)
        argv = (token_file, str(answer))
        run_tasks(self, [Task(CHECK, argv, self.home / "check.txt", program=cluster.DESCRIBE)])
        described = _read(answer)
        return [cluster.Machine(*described) if described else cluster.Machine("the machine of a SLURM job", "", {})]


def _read(file: Path) -> Any:
    """The content of a JSON file; None if there is none, or it is no JSON."""
    try:
        return json.loads(read_limited(file, links=False))
    except (OSError, ValueError, RecursionError):
        return None
