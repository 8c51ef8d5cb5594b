"""Devices, precision, strategy and processes, through Lightning Fabric."""

import atexit
import gc
import os
import sys
import warnings
from datetime import timedelta
from functools import partial
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import torch
import torch.distributed.nn.functional  # before a group exists: see opl/_kernels/normalize.py
from torch import nn
from torch.distributed.distributed_c10d import _set_pg_timeout

from ..allocator import keep_freed_memory
from ..recipe import Recipe
from .ranks import connect_restarted, describe_loss, start_ranks
from .stopping import GRACE, end_within

STARTUP = 300.0  # seconds that processes have to come together, at least

METRICS = "torchmetrics"


def import_fabric() -> Any:
    """Import Lightning Fabric, without torchmetrics: it would import that, which takes seconds, for its version alone.

    An empty module stands in its place meanwhile, so that Fabric looks the version up in the installed package.
    """
    stands_in = METRICS not in sys.modules and find_spec(METRICS) is not None
    if stands_in:
        sys.modules[METRICS] = ModuleType(METRICS)
    try:
        import lightning_fabric
    finally:
        if stands_in:
            del sys.modules[METRICS]
    return lightning_fabric


def launch(recipe: Recipe) -> Any:
    """Launch Fabric with the recipe's devices, precision and processes; under torchrun or SLURM it uses theirs."""
    several = recipe.devices * recipe.nodes > 1
    if several and not torch.cuda.is_available():
        torch.set_num_threads(max(1, (os.cpu_count() or 1) // recipe.devices))
    lightning = import_fabric()
    strategy: Any = _strategy(recipe) if several else "auto"
    fabric = lightning.Fabric(
        devices=recipe.devices, num_nodes=recipe.nodes, strategy=strategy, precision=recipe.precision
    )
    if several and not strategy.cluster_environment.creates_processes_externally:
        start_ranks(recipe.devices, recipe.nodes, strategy.cluster_environment)
    try:
        if several:
            connect_restarted("nccl" if torch.cuda.is_available() else "gloo", _startup(recipe))
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


def _startup(recipe: Recipe) -> timedelta:
    return timedelta(seconds=max(recipe.timeout, STARTUP))


def _strategy(recipe: Recipe) -> Any:
    """Return Fabric's strategy for several processes."""
    timeout = _startup(recipe)
    if recipe.strategy == "ddp":
        from lightning_fabric.strategies.ddp import DDPStrategy

        return DDPStrategy(timeout=timeout)
    from lightning_fabric.strategies.model_parallel import ModelParallelStrategy

    shard = partial(_shard, timeout=timedelta(seconds=recipe.timeout))
    return ModelParallelStrategy(shard, recipe.devices * recipe.nodes, 1, timeout=timeout)


def _shard(model: nn.Module, mesh: Any, timeout: timedelta) -> nn.Module:
    """Shard the weights over the processes: those of each direct part of the model together, then the rest."""
    from torch.distributed.fsdp import fully_shard

    _set_pg_timeout(timeout, mesh["data_parallel"].get_group())
    warnings.filterwarnings("ignore", "FSDP2-wrapped module .* returned a view")  # nobody writes into features
    weighted = [part for part in model.children() if any(True for _ in part.parameters())]
    for part in (*weighted, model):
        fully_shard(part, mesh=mesh["data_parallel"])
    return model


def _leave() -> None:
    """Destroy the process group when Python exits, not after a run: the next run of a script would race for its port.

    DDP contains reference cycles, so it is garbage-collected first: otherwise it keeps gloo's threads alive, and one of
    those occasionally aborts the process while Python shuts down. `launch` keeps torch's compiler from doing the same.
    """
    if torch.distributed.is_initialized():
        end_within(GRACE, 1, "the other processes of the run did not let this one go, so it ended by itself.")
        gc.collect()
        torch.distributed.destroy_process_group()
