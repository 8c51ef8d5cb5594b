"""Devices, precision and processes, through Lightning Fabric."""

import atexit
import gc
import os
import sys
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import torch

from ..recipe import Recipe

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
    fabric = import_fabric().Fabric(
        devices=recipe.devices,
        num_nodes=recipe.nodes,
        strategy="ddp" if several else "auto",
        precision=recipe.precision,
    )
    fabric.launch()
    if fabric.world_size > 1:
        atexit.unregister(_leave)
        atexit.register(_leave)
    return fabric


def _leave() -> None:
    """Destroy the process group when Python exits, not after a run: the next run of a script would race for its port.

    DDP contains reference cycles, so it is garbage-collected first: otherwise it keeps gloo's threads alive, and one of
    those occasionally aborts the process while Python shuts down.
    """
    if torch.distributed.is_initialized():
        gc.collect()
        torch.distributed.destroy_process_group()
