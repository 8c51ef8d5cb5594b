"""The processes of one run on this machine: started together, ended together, and what is said when one is lost."""

import os
import signal
import subprocess
import sys
import time
from datetime import timedelta
from typing import Any

import torch.distributed as dist

from ...errors import DistributedError, OplError
from .parent import child_environment

LAUNCHER = "OPL_LAUNCHER"
SIGNS = ("gloo", "nccl", "connection closed", "connection reset", "broken pipe")  # in messages of collectives


def start_ranks(devices: int, nodes: int, environment: Any) -> None:
    """Start this program again for every other process of this machine; each ends when this one does.

    Fabric's own launcher would kill this process without a word as soon as one of the others ends.
    """
    os.environ |= {
        "MASTER_ADDR": environment.main_address,
        "MASTER_PORT": str(environment.main_port),
        "NODE_RANK": str(environment.node_rank()),
        "WORLD_SIZE": str(devices * nodes),
        "LOCAL_RANK": "0",
    }
    for rank in range(1, devices):
        own = {"LOCAL_RANK": str(rank), LAUNCHER: str(os.getpid())}
        subprocess.Popen(_command(), env={**child_environment(signal.SIGKILL), **own})


def _command() -> list[str]:
    """The command that started this process; a module of ours is not looked for in the current folder."""
    import __main__

    if __main__.__spec__ is None:
        return [sys.executable, *_safe(sys.flags.safe_path), os.path.abspath(sys.argv[0]), *sys.argv[1:]]
    name = __main__.__spec__.name
    return [sys.executable, *_safe(sys.flags.safe_path or name.startswith("opl.")), "-m", name, *sys.argv[1:]]


def _safe(wanted: bool) -> list[str]:
    return ["-P"] if wanted else []


def connect_restarted(backend: str, timeout: timedelta) -> None:
    """Connect the processes of a run that torchrun restarted; otherwise leave it to Fabric.

    torchrun keeps its store for the next attempt, and in it the addresses of the processes that ended; so each attempt
    gets a part of the store to itself.
    """
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    shared = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    if attempt == "0" or not shared or dist.is_initialized():
        return
    from torch._C._distributed_c10d import PrefixStore, TCPStore

    store = TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False, timeout=timeout)
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    own = PrefixStore(f"attempt-{attempt}", store)
    dist.init_process_group(backend, store=own, rank=rank, world_size=world, timeout=timeout)


def is_first() -> bool:
    """Whether this is the first process of a run, also before the processes are connected."""
    return all(os.environ.get(name, "0") == "0" for name in ("RANK", "LOCAL_RANK", "NODE_RANK", "SLURM_PROCID"))


def describe_loss(error: Exception, timeout: float) -> DistributedError | None:
    """Return the sentence for an error of a collective; None if it is another error."""
    text = str(error).lower()
    if isinstance(error, OplError) or not isinstance(error, RuntimeError):
        return None
    if not isinstance(error, dist.DistError) and not any(sign in text for sign in SIGNS):
        return None
    if "timed out" in text or "timeout" in text:
        return DistributedError(
            f"another process of this run did not answer for {timeout:g} s, so all end: the same command resumes from "
            "the last checkpoint; --timeout gives slow processes more time."
        )
    return DistributedError(
        "another process of this run has ended, so all end: its own message says why, if it could write one; the same "
        "command resumes from the last checkpoint."
    )


def end_launcher(patience: float, sentence: str) -> None:
    """End the process that started this one as one of its run, if it does not end by itself.

    It may be stopped, so that only SIGKILL reaches it.
    """
    launcher, deadline = int(os.environ.get(LAUNCHER, "0")), time.monotonic() + patience
    while launcher and os.getppid() == launcher:
        if time.monotonic() > deadline:
            print(f"opl: {sentence}", file=sys.stderr, flush=True)  # this process ends with the one that it kills
            os.kill(launcher, signal.SIGKILL)
            return
        time.sleep(0.1)
