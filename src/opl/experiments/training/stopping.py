"""How a process ends: on SIGTERM and SIGINT, within a time limit, and with its parent. Does not import torch."""

import ctypes
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Self

from ...errors import StoppedError

GRACE = 9.0  # seconds from a signal to the end of a process, whatever it is doing
PARENT = "OPL_PARENT"
PR_SET_PDEATHSIG = 1  # from linux/prctl.h


class StopSignals:
    """Receives SIGTERM and SIGINT while it is entered, in the main thread of a process.

    Outside of `deferred`, a signal raises `StoppedError` at once. Inside, it is only recorded, and the training loop
    checks for it after each step: the step ends, a checkpoint is written, and the same command resumes from it. A
    process that has not ended after `GRACE` seconds is ended by a timer; a second SIGINT ends it immediately.
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
                if signal.getsignal(signum) is not signal.SIG_IGN:  # the parent handles it
                    self.handlers[signum] = signal.signal(signum, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for signum, handler in self.handlers.items():
            signal.signal(signum, handler)
        if self.timer is not None:
            self.timer.cancel()

    def hold(self) -> None:
        """Only record signals from here on."""
        self.waits = True

    @contextmanager
    def deferred(self) -> Iterator[None]:
        """Only record signals inside the block; a recorded signal is raised at its end."""
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
        if os.getpid() != self.process:  # a forked loader worker: the training process handles Ctrl-C
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


def _name(signum: int) -> str:
    return signal.Signals(signum).name


def end_within(seconds: float, code: int, sentence: str) -> threading.Timer:
    """End this process with an exit code and a sentence, unless it has ended before or the timer is canceled."""

    def end() -> None:
        print(f"opl: {sentence}", file=sys.stderr, flush=True)
        os._exit(code)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    return timer


def child_environment(environment: Mapping[str, str] = os.environ, signum: int = signal.SIGTERM) -> dict[str, str]:
    """Return the environment for a child that calls `end_with_parent` and gets this signal when this process ends.

    Start the child from a thread that lives as long as the child: Linux sends the signal when that thread ends. A
    process that a user started has no such environment and outlives its shell as usual.
    """
    return {**environment, PARENT: f"{os.getpid()} {int(signum)}"}


def end_with_parent() -> None:
    """End this process together with its parent, however the parent ends, if the parent requested it.

    Later calls, and the children of this process, do not see the request again.
    """
    parent, _, signum = os.environ.pop(PARENT, "").partition(" ")
    if not (parent.isdecimal() and signum.isdecimal()):
        return
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signum))
    threading.Thread(target=_follow, args=(int(parent), int(signum)), daemon=True).start()


def _follow(parent: int, signum: int) -> None:
    """Send this process the signal once its parent has ended, and kill it and its group if that does not end it."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os.kill(os.getpid(), signum)
    time.sleep(GRACE + 1)
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)
