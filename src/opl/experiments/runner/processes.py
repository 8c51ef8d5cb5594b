"""Tasks as processes on this machine: each has its own, or short ones share workers that import torch once."""

import os
import queue
import threading
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Self

from .children import WORKER, Child, end_all, start_child
from .executor import Event, State, Task, is_hopeless, is_ready
from .lifeline import GRACE


class Processes:
    """Executes tasks, `at_once` at a time in the order given, each in a process of its own.

    Cores and accelerators are shared out among the places in which tasks run. No exception leaves a
    process behind, and if this process is killed, the others end too.

    Args:
        at_once: tasks at a time.
        warm: execute one command after another in `at_once` worker processes, for commands that take less time than the
            imports. A worker that dies fails its command alone.
    """

    patience = 2 * GRACE

    def __init__(self, at_once: int, warm: bool = False) -> None:
        self.at_once, self.warm = at_once, warm
        self.waiting: list[Task] = []
        self.states: dict[str, State] = {}
        self.places: queue.SimpleQueue[int] = queue.SimpleQueue()
        for place in range(at_once):
            self.places.put(place)
        self.children: dict[int, Child] = {}
        self.starting = threading.Lock()
        self.cancelled = False

    def __enter__(self) -> Self:
        self.pool = ThreadPoolExecutor(self.at_once)
        return self

    def __exit__(self, *_: object) -> None:
        self.cancel()
        self.pool.shutdown()

    def submit(self, task: Task) -> None:
        """Add a task; it starts once there is a place, and what it comes after is done."""
        if self.states.get(task.name) not in ("queued", "running"):
            self.waiting.append(task)
            self.states[task.name] = "queued"

    def watch(self) -> Iterator[Event]:
        """Start tasks and yield what happens, until all have ended."""
        running: dict[Future[int], Task] = {}
        while self.waiting or running:
            for task in [task for task in self.waiting if is_hopeless(task, self.states)]:
                self.waiting.remove(task)
                yield self._change(task, "skipped")
            for task in [task for task in self.waiting if is_ready(task, self.states)][: self.at_once - len(running)]:
                self.waiting.remove(task)
                running[self.pool.submit(self._execute, task)] = task
                yield self._change(task, "running")
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                yield self._change(running.pop(future), "failed" if future.result() else "done")

    def cancel(self) -> None:
        """End all processes, with time to save a checkpoint."""
        with self.starting:
            self.cancelled = True
            self.waiting.clear()
            end_all(self.children.values())

    def _change(self, task: Task, state: State) -> Event:
        self.states[task.name] = state
        return Event(task.name, state)

    def _execute(self, task: Task) -> int:
        """Execute a task in a free place; returns its exit code."""
        place = self.places.get()
        try:
            if self.warm:
                return self._worker(place).order({"words": task.words, "log": str(task.log)})
            with self.starting:
                child = self._place(place, start_child(task, self._environment(place)))
            return child.wait()
        finally:
            self.places.put(place)

    def _worker(self, place: int) -> Child:
        """The worker of a place, which is replaced if it died."""
        with self.starting:
            worker = self.children.get(place)
            if worker is not None and worker.is_alive():
                return worker
            return self._place(place, Child(WORKER, self._environment(place)))

    def _place(self, place: int, child: Child) -> Child:
        """Remember a child, so that it is ended with the others."""
        self.children[place] = child
        if self.cancelled:
            end_all([child])
        return child

    def _environment(self, place: int) -> dict[str, str]:
        """The share of the machine that belongs to a place."""
        cards = _cards()
        threads = str(max(1, (os.cpu_count() or 1) // self.at_once))
        card = {"CUDA_VISIBLE_DEVICES": cards[place % len(cards)]} if len(cards) > 1 else {}
        return {**os.environ, "OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads, **card}


def _cards() -> list[str]:
    """The accelerators that may be used, by name."""
    import torch

    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    return named.split(",") if named else [str(card) for card in range(torch.cuda.device_count())]
