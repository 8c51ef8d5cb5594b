"""A command of `opl` in a process of its own, forked, so that limits and deleted folders hurt nobody else."""

import ctypes
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

CAPABILITIES = 0x20080522  # version 3 of the kernel's interface


def opl_in_child(words: list[str], log: Path, before: Callable[[], None] = lambda: None) -> tuple[int, str]:
    """The exit code of a command, and all that it wrote; `before` is called in the child first."""
    import lightning_fabric  # noqa: F401
    import torch

    from opl.experiments.cli import main, train  # noqa: F401
    from opl.experiments.training import run  # noqa: F401

    child = os.fork()
    if child == 0:
        code = 99
        try:
            file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            for stream in (1, 2):
                os.dup2(file, stream)
            torch.set_num_threads(1)
            before()
            sys.stderr = os.fdopen(2, "w", closefd=False)
            sys.stdout = os.fdopen(1, "w", closefd=False) if sys.stdout is not None else None
            code = main(words)
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
        except BaseException:
            traceback.print_exc()
        finally:
            for stream in (sys.stdout, sys.stderr):
                if stream is not None:
                    stream.flush()
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), log.read_text(errors="replace")


def obey_permissions() -> None:
    """Give up the right of root to write where the permissions forbid it; for others there is nothing to do."""
    if os.geteuid() == 0:
        header = (ctypes.c_uint32 * 2)(CAPABILITIES, 0)
        sets = (ctypes.c_uint32 * 6)()
        if ctypes.CDLL(None).capset(ctypes.byref(header), ctypes.byref(sets)):
            raise OSError("this process cannot give up its rights")
