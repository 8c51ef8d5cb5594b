"""The flags that choose where commands run."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from ..._ranges import Range
from .executor import Executor, Resources

Backend = Literal["local", "ray", "slurm"]
Jobs = Annotated[int, Range(1, 1024)]


@dataclass(frozen=True)
class Placement:
    """Where runs are executed, and with which resources."""

    on: Backend = "local"
    """Processes on this machine, a Ray cluster (RAY_ADDRESS, or a new one on this machine), or SLURM jobs."""
    jobs: Jobs = 1
    """Runs in parallel on this machine (at least two at the tiny scale); they share cores and accelerators."""
    cpus: Jobs = 1
    """Cores per run on a cluster."""
    gpus: Annotated[int, Range(0, 1024)] = 0
    """Accelerators per run on a cluster."""
    memory: Annotated[float, Range(0, 1e6)] = 0.0
    """Gigabytes per run on a cluster; 0 requests no particular amount."""
    partition: str = ""
    """SLURM partition."""
    account: str = ""
    """SLURM account."""
    time: Annotated[int, Range(1, 10**6)] = 1440
    """Minutes until SLURM requeues a run, which then resumes."""
    on_interrupt: Literal["leave", "cancel"] = "leave"
    """What Ctrl-C does to runs on a cluster: leave them running, or cancel them."""

    @property
    def resources(self) -> Resources:
        """The resources per run on a cluster."""
        return Resources(self.cpus, self.gpus, self.memory)

    @contextmanager
    def executor(self, folder: Path, short: bool) -> Iterator[Executor]:
        """Open the executor for runs below a folder; SIGTERM interrupts it like Ctrl-C.

        Args:
            folder: the folder of the runs.
            short: whether runs take less time than importing torch, so that on this machine they share warm workers.
        """
        with _sigterm_interrupts(), self._build(folder, short) as executor:
            yield executor

    def _build(self, folder: Path, short: bool) -> Executor:
        cancel = self.on_interrupt == "cancel"
        if self.on == "ray":
            from .ray_executor import RayCluster

            return RayCluster(folder, cancel)
        if self.on == "slurm":
            from .slurm import Slurm

            queue = {"slurm_partition": self.partition, "slurm_account": self.account}
            return Slurm(folder, cancel, timeout_min=self.time, **queue)
        from .local import Local

        cores = min(2, os.cpu_count() or 1)  # the networks of short runs gain nothing from a second thread
        return Local(max(self.jobs, cores) if short else self.jobs, warm=short)


HERE = Placement()


@contextmanager
def _sigterm_interrupts() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)
