"""Peak memory of a call, measured in a fresh process. Linux alone tells it."""

import multiprocessing
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeVar

from ...errors import OptionError

T = TypeVar("T")


def measure_peak(call: Callable[[], T]) -> tuple[T, int]:
    """What a call returns, and its peak memory in bytes above what this process holds before it."""
    before = _status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts again from here
    returned = call()
    return returned, _status("VmHWM") - before


def run_in_child(what: str, function: Callable[..., T], *arguments: Any) -> T:
    """Call a function of a module in a fresh process.

    Args:
        what: what it measures, for the sentence that says that the process died.
        function: one that can be imported by name.
        arguments: of the function.
    """
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=_send, args=(function, arguments, sender))
    child.start()
    sender.close()
    try:
        returned: T = receiver.recv()
    except EOFError:
        raise OptionError(f"the process that measured {what} died: free some memory.") from None
    finally:
        child.join()
    return returned


def _send(function: Callable[..., Any], arguments: tuple[Any, ...], sender: "Connection[Any, Any]") -> None:
    sender.send(function(*arguments))


def _status(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))
