"""Processes that end with the process that started them, whatever ends that one. Does not import torch.

The parent gives a child the environment `child_environment()`; the child calls `end_with_parent()`. A process that
somebody started by hand has no such environment and outlives its shell as usual.
"""

import ctypes
import os
import signal
import sys
import threading
import time

PARENT = "OPL_PARENT"
PR_SET_PDEATHSIG = 1  # of linux/prctl.h


def child_environment(signum: int = signal.SIGTERM) -> dict[str, str]:
    """Return the environment for a child that gets this signal when this process ends.

    Start the child from the main thread: Linux sends the signal when the thread that started it ends.
    """
    return {**os.environ, PARENT: f"{os.getpid()} {int(signum)}"}


def end_with_parent() -> None:
    """Have this process end with its parent, if that asked for it.

    Later calls, and the children of this process, do not see the request again.
    """
    words = os.environ.pop(PARENT, "").split()
    if len(words) != 2 or not all(word.isdecimal() for word in words):
        return
    parent, signum = map(int, words)
    if not ask_for_signal(signum):
        threading.Thread(target=_watch, args=(parent, signum), daemon=True).start()
    if os.getppid() != parent:  # it ended before this process could ask for the signal
        os.kill(os.getpid(), signum)


def ask_for_signal(signum: int) -> bool:
    """Have Linux send this process a signal when its parent ends; other systems have no such thing."""
    if sys.platform != "linux":
        return False
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signum)
    return True


def _watch(parent: int, signum: int) -> None:
    while os.getppid() == parent:
        time.sleep(1.0)
    os.kill(os.getpid(), signum)
