"""Where `opl` commands are executed: each in a process of its own, or one after another in workers."""

import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol, Self

CLI, WORKER = "opl", "opl.experiments.cli.worker"
PATIENCE = 10.0  # seconds


class Execution(Protocol):
    """A command that was started."""

    def poll(self) -> int | None:
        """Return its exit code; None while it runs."""
        ...


class Commands:
    """Executes `opl` commands, `at_once` at a time, each in a process of its own; as a context manager it ends them.

    Cores and accelerators are shared out among the places in which commands run. Neither an exception, Ctrl-C nor
    SIGTERM leaves a process behind.
    """

    def __init__(self, at_once: int) -> None:
        self.executions: list[Execution | None] = [None] * at_once
        self.processes: list[subprocess.Popen[bytes] | None] = [None] * at_once
        self.usual: Any = None

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self.usual = signal.signal(signal.SIGTERM, signal.default_int_handler)
        return self

    def __exit__(self, *_: object) -> None:
        processes = [process for process in self.processes if process is not None]
        for process in processes:
            process.terminate()
        for process in processes:
            try:
                process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()
        if self.usual is not None:
            signal.signal(signal.SIGTERM, self.usual)

    @property
    def free(self) -> list[int]:
        """The places in which no command runs."""
        return [place for place, each in enumerate(self.executions) if each is None or each.poll() is not None]

    def start(self, words: Sequence[str], log: Path) -> Execution:
        """Start a command in a free place, with its output appended to a file."""
        place = self.free[0]
        execution = self._start(place, words, log)
        self.executions[place] = execution
        return execution

    def wait(self) -> None:
        """Wait a moment, or until a command ends."""
        time.sleep(0.2)

    def _start(self, place: int, words: Sequence[str], log: Path) -> Execution:
        with log.open("ab") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", CLI, *words], stdout=file, stderr=file, env=self._environment(place)
            )
        self.processes[place] = process
        return process

    def _environment(self, place: int) -> dict[str, str]:
        """The share of the machine that belongs to a place."""
        at_once, cards = len(self.executions), _cards()
        threads = str(max(1, (os.cpu_count() or 1) // at_once))
        card = {"CUDA_VISIBLE_DEVICES": cards[place % len(cards)]} if len(cards) > 1 else {}
        return {**os.environ, "OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads, **card}


class Workers(Commands):
    """Executes commands one after another in workers, `at_once` processes that import torch once.

    For commands that take less time than the imports. A worker that dies fails its command alone, and one whose parent
    dies ends after its command.
    """

    def wait(self) -> None:
        """Wait a moment, or until a command ends."""
        running = [each for each in self.executions if isinstance(each, _Task) and each.poll() is None]
        select.select([task.replies for task in running], [], [], 0.2)

    def _start(self, place: int, words: Sequence[str], log: Path) -> Execution:
        worker = self.processes[place]
        if worker is None or worker.poll() is not None:
            worker = subprocess.Popen(
                [sys.executable, "-m", WORKER],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=self._environment(place),
                bufsize=0,
            )
            self.processes[place] = worker
        return _Task(worker, words, log)


class _Task:
    """A command in a worker."""

    def __init__(self, worker: subprocess.Popen[bytes], words: Sequence[str], log: Path) -> None:
        assert worker.stdin is not None
        assert worker.stdout is not None
        self.worker, self.replies = worker, worker.stdout
        self.code: int | None = None
        worker.stdin.write(json.dumps({"words": list(words), "log": str(log)}).encode() + b"\n")

    def poll(self) -> int | None:
        """Return the exit code; None while it runs. A worker that died has failed."""
        if self.code is None and select.select([self.replies], [], [], 0)[0]:
            reply = self.replies.readline()
            self.code = int(reply) if reply else self.worker.wait() or 1
        return self.code


def _cards() -> list[str]:
    """The accelerators that may be used, by name."""
    import torch

    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    return named.split(",") if named else [str(card) for card in range(torch.cuda.device_count())]


def commands(scale: str, at_once: int) -> Commands:
    """Return where the runs of a scale are executed: tiny ones in workers, the others in isolation."""
    return (Workers if scale == "tiny" else Commands)(at_once)
