"""Devices, precision, strategy and the processes of one run, through Lightning Fabric; and their environment."""

import atexit
import gc
import os
import platform
import signal
import subprocess
import sys
import time
import warnings
from datetime import timedelta
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.nn.functional  # before a group exists: see opl/_kernels/normalize.py
from torch import nn
from torch.distributed.distributed_c10d import _set_pg_timeout

from ... import __version__
from ...errors import DistributedError, OplError
from ..allocator import keep_freed_memory
from ..recipe import Recipe
from .stopping import GRACE, child_environment, end_within

STARTUP = 300.0  # seconds that processes have to connect, at least
LAUNCHER = "OPL_LAUNCHER"
SIGNS = ("gloo", "nccl", "connection closed", "connection reset", "broken pipe")  # in messages of collectives


def import_fabric() -> Any:
    """Import Lightning Fabric without torchmetrics, which it would import, in 1.5 s, only to read its version."""
    from lightning_utilities.core import imports

    original = imports.compare_version

    def compare(package: str, *arguments: Any, **options: Any) -> bool:
        if package == "torchmetrics":
            return find_spec(package) is not None
        return original(package, *arguments, **options)

    imports.compare_version = compare
    try:
        import lightning_fabric
    finally:
        imports.compare_version = original
    return lightning_fabric


def launch(recipe: Recipe) -> Any:
    """Launch Fabric with the recipe's devices, precision and processes; under torchrun or SLURM it uses theirs."""
    several = recipe.devices * recipe.nodes > 1
    startup = timedelta(seconds=max(recipe.timeout, STARTUP))
    if several and not torch.cuda.is_available():
        torch.set_num_threads(max(1, (os.cpu_count() or 1) // recipe.devices))
    lightning = import_fabric()
    strategy: Any = _strategy(recipe, startup) if several else "auto"
    fabric = lightning.Fabric(
        devices=recipe.devices, num_nodes=recipe.nodes, strategy=strategy, precision=recipe.precision
    )
    if several and not strategy.cluster_environment.creates_processes_externally:
        _start_ranks(recipe.devices, recipe.nodes, strategy.cluster_environment)
    try:
        if several:
            _connect_restarted("nccl" if torch.cuda.is_available() else "gloo", startup)
        fabric.launch()
    except Exception as error:
        lost = describe_loss(error, recipe.timeout)
        if lost is None:
            raise
        raise lost from error
    if fabric.world_size > 1:
        _set_pg_timeout(timedelta(seconds=recipe.timeout))
        atexit.unregister(_leave)
        atexit.register(_leave)
    if fabric.device.type == "cpu":
        keep_freed_memory()
    return fabric


def _strategy(recipe: Recipe, timeout: timedelta) -> Any:
    """Return Fabric's strategy for several processes."""
    if recipe.strategy == "ddp":
        from lightning_fabric.strategies.ddp import DDPStrategy

        return DDPStrategy(timeout=timeout)
    from lightning_fabric.strategies.model_parallel import ModelParallelStrategy

    shard = partial(_shard, timeout=timedelta(seconds=recipe.timeout))
    return ModelParallelStrategy(shard, recipe.devices * recipe.nodes, 1, timeout=timeout)


def _shard(model: nn.Module, mesh: Any, timeout: timedelta) -> nn.Module:
    """Shard the weights over the processes: each direct part of the model together, then the rest."""
    from torch.distributed.fsdp import fully_shard

    _set_pg_timeout(timeout, mesh["data_parallel"].get_group())
    warnings.filterwarnings("ignore", "FSDP2-wrapped module .* returned a view")  # features are never written to
    weighted = [part for part in model.children() if any(True for _ in part.parameters())]
    for part in (*weighted, model):
        fully_shard(part, mesh=mesh["data_parallel"])
    return model


def _leave() -> None:
    """Destroy the process group when Python exits, not after a run: the next run of a script would race for its port.

    DDP contains reference cycles, so it is garbage-collected first: otherwise it keeps gloo's threads alive, and one of
    them occasionally aborts the process while Python shuts down. The early import of torch.distributed.nn.functional
    keeps torch's compiler from doing the same.
    """
    if torch.distributed.is_initialized():
        end_within(GRACE, 1, "the other processes of the run did not disconnect in time, so this process ended.")
        gc.collect()
        torch.distributed.destroy_process_group()


# The processes of one run on this machine: started together and ended together.


def _start_ranks(devices: int, nodes: int, cluster: Any) -> None:
    """Start this program again for every other process of this machine; each ends when this one does.

    Fabric's own launcher would kill this process without a message as soon as one of the others ends.
    """
    os.environ |= {
        "MASTER_ADDR": cluster.main_address,
        "MASTER_PORT": str(cluster.main_port),
        "NODE_RANK": str(cluster.node_rank()),
        "WORLD_SIZE": str(devices * nodes),
        "LOCAL_RANK": "0",
    }
    for rank in range(1, devices):
        environment = {**os.environ, "LOCAL_RANK": str(rank), LAUNCHER: str(os.getpid())}
        subprocess.Popen(_command(), env=child_environment(environment, signal.SIGKILL))


def _command() -> list[str]:
    """Return the command that started this process; modules of opl are not looked up in the current folder."""
    import __main__

    name = __main__.__spec__.name if __main__.__spec__ else ""
    program = ["-m", name] if name else [os.path.abspath(sys.argv[0])]
    safe = ["-P"] if sys.flags.safe_path or name.startswith("opl.") else []
    return [sys.executable, *safe, *program, *sys.argv[1:]]


def _connect_restarted(backend: str, timeout: timedelta) -> None:
    """Connect the processes of a run that torchrun restarted; otherwise leave it to Fabric.

    torchrun keeps its store for the next attempt, including the addresses of the processes that ended, so each attempt
    gets a part of the store to itself.
    """
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    shared = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    if attempt == "0" or not shared or dist.is_initialized():
        return
    from torch._C._distributed_c10d import PrefixStore, TCPStore

    store = TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False, timeout=timeout)
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    part = PrefixStore(f"attempt-{attempt}", store)
    dist.init_process_group(backend, store=part, rank=rank, world_size=world, timeout=timeout)


def is_first() -> bool:
    """Return whether this is the first process of a run, even before the processes are connected."""
    return all(os.environ.get(name, "0") == "0" for name in ("RANK", "LOCAL_RANK", "NODE_RANK", "SLURM_PROCID"))


def describe_loss(error: Exception, timeout: float) -> DistributedError | None:
    """Convert an error of a collective to a `DistributedError`; return None for any other error."""
    text = str(error).lower()
    if isinstance(error, OplError) or not isinstance(error, RuntimeError):
        return None
    if not isinstance(error, dist.DistError) and not any(sign in text for sign in SIGNS):
        return None
    if "timed out" in text or "timeout" in text:
        return DistributedError(
            f"another process of this run did not answer for {timeout:g} s, so all end: run the same command again to "
            "resume from the last checkpoint, with a longer --timeout if the processes are slow."
        )
    return DistributedError(
        "another process of this run has ended, so all end: look for its message, which names the reason; the same "
        "command resumes from the last checkpoint."
    )


def end_run(lost: DistributedError) -> None:
    """End this process and its launcher after the loss of another process, if they do not end by themselves.

    The launcher may be stopped, so that only SIGKILL reaches it.
    """
    end_within(2 * GRACE, 1, str(lost))
    launcher, deadline = int(os.environ.get(LAUNCHER, "0")), time.monotonic() + GRACE
    while launcher and os.getppid() == launcher:
        if time.monotonic() > deadline:
            print(f"opl: {lost}", file=sys.stderr, flush=True)  # this process ends with its launcher
            os.kill(launcher, signal.SIGKILL)
            return
        time.sleep(0.1)


# Provenance: versions, commit and machine.


def describe_environment() -> dict[str, Any]:
    """Return versions, commit and machine, for `recipe.json`."""
    return {
        "versions": {"opl": __version__, "torch": torch.__version__, "python": platform.python_version()},
        "commit": commit(),
        "machine": {
            "system": platform.platform(terse=True),
            "processor": platform.machine(),
            "cores": os.cpu_count(),
            "threads": torch.get_num_threads(),
            "accelerator": torch.cuda.get_device_name() if torch.cuda.is_available() else "none",
        },
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def commit(source: Path = Path(__file__)) -> str:
    """Return the commit of the running source, with `+` if files differ from it; empty unless git tracks the source.

    A package that is installed below another repository, in an environment that git ignores, is not part of it.
    """
    try:
        _git(source, "ls-files", "--error-unmatch", source.name)
        return _git(source, "describe", "--always", "--dirty=+", "--abbrev=10")
    except (OSError, subprocess.SubprocessError):
        return ""


def _git(source: Path, *arguments: str) -> str:
    command = ["git", "-C", str(source.parent), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()
