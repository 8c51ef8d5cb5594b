"""How a command of an executor ends with its parent, however that ends: killed, terminated, or lost with its machine.

The parent holds the other end of the child's standard input, so its end is seen everywhere; Linux also sends a signal.
"""

import os
import signal
import threading
import time
from collections.abc import Callable

GRACE = 15.0
"""Seconds between SIGTERM, on which a run saves a checkpoint, and SIGKILL."""


def hold_lifeline(receive: Callable[[bytes], None] = lambda line: None) -> None:
    """Terminate this process when its parent ends; each line of standard input before that goes to `receive`."""
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
