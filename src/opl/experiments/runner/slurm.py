"""Tasks as SLURM jobs, by submitit: requeued after preemption or a timeout, and identified by job ids.

Jobs and this process exchange JSON files in `.slurm` next to the runs: submitit's own results are pickles, which must
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
from typing import Any

from ...errors import OplError
from ..files import read_json, write_whole
from . import cluster
from .executor import ENDED, GRACE, State, Task, end_processes

HOME, JOBS, ANSWER = ".slurm", "jobs.json", "machine.json"
TIMEOUTS = 1000  # a run resumes as often as it needs to
TERMINATED, REPRIEVE = 143, 120.0


class Run:
    """A task as submitit calls it in a job; it writes its state to a file."""

    def __init__(self, task: Task, environment: dict[str, str], note: Path) -> None:
        self.task, self.environment, self.note = task, environment, note
        self.child: Any = None

    def __call__(self) -> None:
        """Execute the task; raise an error if it fails, so that SLURM does not start dependent jobs."""
        write_whole(self.note, json.dumps("running"))
        self.child = cluster.start_child(self.task, self.environment)
        code = self.child.wait()
        end_processes([self.child])
        if code == TERMINATED:  # by a preemption, which is about to send other signals
            time.sleep(REPRIEVE)
        write_whole(self.note, json.dumps("failed" if code else "done"))
        if code:
            raise RuntimeError(f"exit code {code}")

    def checkpoint(self) -> Any:
        """Let the run save a checkpoint, from which the same task resumes in the next job."""
        from submitit.helpers import DelayedSubmission

        end_processes([self.child] if self.child else [])
        return DelayedSubmission(Run(self.task, self.environment, self.note))


def write_description(token_file: str, answer: Path) -> None:
    """Write the description of the machine that executes this function."""
    write_whole(answer, json.dumps(cluster.describe_machine(token_file)))


class Slurm(cluster.Cluster):
    """Executes tasks as SLURM jobs.

    The engine `local` runs jobs as processes of this machine, for tests. `queue` holds submitit parameters
    for all jobs; empty values are left out.
    """

    name = "SLURM"
    interval = 1.0

    def __init__(self, folder: Path, cancel: bool = False, engine: str = "slurm", **queue: Any) -> None:
        super().__init__(folder, cancel)
        self.home, self.engine, self.queue = self.folder / HOME, engine, queue
        self.ahead = engine == "slurm"
        self.jobs: dict[str, Any] = {}

    def connect(self) -> None:
        """Prepare submitit; jobs look for modules where they are installed, not where this is called."""
        submitit = cluster.import_engine("submitit", "slurm")
        if self.ahead and not shutil.which("sbatch"):
            raise OplError("sbatch was not found: run this command on a login node of a SLURM cluster.")
        os.environ["PYTHONSAFEPATH"] = "1"
        self.home.mkdir(exist_ok=True)
        more = {f"{self.engine}_python": f"{shlex.quote(sys.executable)} -P", "slurm_max_num_timeout": TIMEOUTS}
        self.submitter = submitit.AutoExecutor(self.home / "%j", cluster=self.engine, **more)
        queue = {name: value or None for name, value in self.queue.items()}
        self.submitter.update_parameters(slurm_signal_delay_s=int(2 * GRACE) + 30, **queue)
        self.kind = {"slurm": submitit.SlurmJob, "local": submitit.LocalJob}[self.engine]

    def describe_machines(self, token_file: str) -> list[cluster.Machine]:
        """Describe the machine of a job."""
        answer = self.home / ANSWER
        answer.unlink(missing_ok=True)
        print("waiting for a job that checks whether it sees the folder of the runs", file=sys.stderr, flush=True)
        job = self.submitter.submit(write_description, token_file, answer)
        try:
            job.wait()
        except BaseException:
            job.cancel()
            raise
        description = _read(answer)
        return [cluster.Machine(*description) if description else cluster.Machine("the machine of a SLURM job", "", {})]

    def start(self, task: Task) -> State:
        """Submit the job of a task, after the jobs in its `after`, or re-attach to the job of an earlier command."""
        ids, note = _read(self.home / JOBS) or {}, self._note(task.name)
        if task.name in ids:
            self.jobs[task.name] = self.kind(self.home / "%j", ids[task.name])
            if (state := self.state(task.name)) not in ENDED:
                return state
        note.unlink(missing_ok=True)
        before = [self.jobs[name].job_id for name in task.after if name in self.running]
        dependency = {"dependency": f"afterok:{':'.join(before)}", "kill-on-invalid-dep": "yes"} if before else {}
        self.submitter.update_parameters(
            name=f"opl {task.name}",
            cpus_per_task=task.resources.cpus,
            gpus_per_node=task.resources.gpus,
            mem_gb=task.resources.memory or None,
            slurm_additional_parameters={"requeue": True, **dependency},
        )
        job = self.jobs[task.name] = self.submitter.submit(Run(task, cluster.opl_variables(), note))
        write_whole(self.home / JOBS, json.dumps({**ids, task.name: job.job_id}, indent=1))
        return "queued"

    def state(self, name: str) -> State:
        """Return the state that a job has written; a job that ended without one has failed."""
        ended = self.jobs[name].done()  # checked before reading its note, which it writes before it ends
        state = _read(self._note(name))
        if state in ENDED:
            return state  # type: ignore[no-any-return]
        return "failed" if ended else "running" if state == "running" else "queued"

    def cancel(self) -> None:
        """End all jobs."""
        for name in self.running:
            self.jobs[name].cancel()

    def _note(self, name: str) -> Path:
        return self.home / f"{hashlib.sha256(name.encode()).hexdigest()[:16]}.json"


def _read(file: Path) -> Any:
    """Read a JSON file; return None if it is missing or not JSON."""
    try:
        return read_json(file, links=False)
    except (OSError, ValueError):
        return None
