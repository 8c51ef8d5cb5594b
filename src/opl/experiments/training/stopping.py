"""SIGTERM and SIGINT during a run: the step ends, a checkpoint is written, and the same command resumes from it."""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

from ...errors import StoppedError

GRACE = 9.0  # seconds from a signal to the end of the process, whatever it is doing


class StopSignals:
    """Receives SIGTERM and SIGINT while it is entered, in the main thread of a process.

    Outside of `deferred`, a signal raises `StoppedError` at once. Inside, it is only remembered, for the training loop
    to ask after each step. A process that has not ended after `GRACE` seconds ends there and then; a second SIGINT ends
    it immediately.
    """

    def __init__(self) -> None:
        self.received = 0
        self.waits = False
        self.process = os.getpid()
        self.handlers: dict[int, Any] = {}
        self.timer: threading.Timer | None = None

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for signum in (signal.SIGTERM, signal.SIGINT):
                if signal.getsignal(signum) is not signal.SIG_IGN:  # somebody else decides about it
                    self.handlers[signum] = signal.signal(signum, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for signum, handler in self.handlers.items():
            signal.signal(signum, handler)
        if self.timer is not None:
            self.timer.cancel()

    def hold(self) -> None:
        """Only remember signals from here on."""
        self.waits = True

    @contextmanager
    def deferred(self) -> Iterator[None]:
        """Only remember signals inside the block; one that came is raised at its end."""
        before, self.waits = self.waits, True
        try:
            yield
        finally:
            self.waits = before
        self._raise()

    def _raise(self) -> None:
        if self.received and not self.waits:
            raise stopped(self.received, "outside of an epoch")

    def _handle(self, signum: int, _: Any) -> None:
        if os.getpid() != self.process:  # a forked loader worker: the training process decides about Ctrl-C
            if signum != signal.SIGINT:
                signal.signal(signum, signal.SIG_DFL)
                os.kill(os.getpid(), signum)
            return
        if self.received and signum == signal.SIGINT == self.received:
            os._exit(128 + signum)
        if not self.received:
            self.received = signum
            sentence = f"{_name(signum)}: the same command resumes from the last checkpoint."
            self.timer = end_within(GRACE, 128 + signum, sentence)
        self._raise()


def stopped(signum: int, where: str) -> StoppedError:
    """Return the error for a run that a signal stopped, with its exit code."""
    return StoppedError(f"stopped by {_name(signum)} {where}: the same command resumes from here.", 128 + signum)


def end_within(seconds: float, code: int, sentence: str) -> threading.Timer:
    """End this process with an exit code and a sentence, unless it has ended before or the timer is canceled."""

    def end() -> None:
        print(f"opl: {sentence}", file=sys.stderr, flush=True)
        os._exit(code)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    return timer


def _name(signum: int) -> str:
    return signal.Signals(signum).name
