"""How a child process ends with its parent, however that ends: killed, terminated, or lost with its machine.

The parent holds the other end of the child's standard input, so its end is seen everywhere; Linux also sends a signal.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable

GRACE = 15.0
"""Seconds between SIGTERM, on which a run saves a checkpoint, and SIGKILL."""
PR_SET_PDEATHSIG = 1  # of <linux/prctl.h>


def end_with_parent(receive: Callable[[bytes], None] = lambda line: None) -> None:
    """Terminate this process when its parent ends; each line of standard input before that goes to `receive`."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    threading.Thread(target=_follow, args=(receive,), daemon=True).start()


def _follow(receive: Callable[[bytes], None]) -> None:
    rest = b""
    while block := os.read(0, 65536):
        *lines, rest = (rest + block).split(b"\n")
        for line in lines:
            receive(line)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE)
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)
