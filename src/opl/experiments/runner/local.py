"""Tasks as processes on this machine: each in a new process, or short ones in warm workers that import torch once."""

import contextlib
import json
import os
import select
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .executor import GRACE, Executor, State, Task, end_processes, start_python

WORKER = ("-m", "opl.experiments.cli.worker")
"""The arguments of Python for a warm worker."""


class Local(Executor):
    """Executes tasks `parallel` at a time, which share cores and accelerators.

    No exception leaves a process behind, and if this process is killed, its children end too. With `warm`, tasks are
    executed in worker processes that stay alive, for tasks that take less time than importing torch; if a worker dies,
    only its task fails.
    """

    patience = 2 * GRACE
    interval = 0.02

    def __init__(self, parallel: int, warm: bool = False) -> None:
        super().__init__()
        self.parallel, self.warm, self.cancelled = parallel, warm, False
        self.children: dict[int, Any] = {}
        """The process of each slot; a slot has a share of the machine."""
        self.slots: dict[str, int] = {}
        """The slots of running tasks."""

    def __exit__(self, *_: object) -> None:
        self.waiting.clear()
        end_processes(self.children.values())

    def cancel(self) -> None:
        """End all processes, which may save a checkpoint; another thread may call it."""
        self.cancelled = True

    def can_start(self) -> bool:
        """Return whether a slot is free."""
        return len(self.slots) < self.parallel

    def start(self, task: Task) -> State:
        """Start a task in a free slot; a worker gets it as a line of JSON, and is started if there is none."""
        slot = self.slots[task.name] = min(set(range(self.parallel)) - set(self.slots.values()))
        if not self.warm:
            self.children[slot] = self._start(slot, task.arguments, task.log)
            return "running"
        if slot not in self.children or self.children[slot].poll() is not None:
            self.children[slot] = self._start(slot, WORKER)
        with contextlib.suppress(BrokenPipeError):  # it died, which `state` reports
            command = json.dumps({"argv": task.argv, "log": str(task.log)})
            self.children[slot].stdin.write(f"{command}\n".encode())
        return "running"

    def state(self, name: str) -> State:
        """Return the state of a task; its process ends with it, but a worker waits for the next task."""
        if self.cancelled:
            self.cancelled = False
            self.__exit__()
        slot = self.slots[name]
        child, reply = self.children[slot], b""
        code = child.poll()
        if self.warm and code is None and select.select([child.stdout], [], [], 0)[0]:
            reply = child.stdout.readline()
            code = int(reply) if reply else None
        if code is None:
            return "running"
        if not reply:
            end_processes([self.children.pop(slot)])
        del self.slots[name]
        return "failed" if code or (self.warm and not reply) else "done"

    def _start(self, slot: int, arguments: Sequence[str], log: Path | None = None) -> Any:
        """Start a process with the share of a slot: its part of the cores, and one of several accelerators."""
        import torch

        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        devices = visible.split(",") if visible else [str(index) for index in range(torch.cuda.device_count())]
        device = {"CUDA_VISIBLE_DEVICES": devices[slot % len(devices)]} if len(devices) > 1 else {}
        threads = max(1, (os.cpu_count() or 1) // self.parallel)
        return start_python(arguments, threads, {**os.environ, **device}, log)
