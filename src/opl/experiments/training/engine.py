"""Devices, precision and processes, through Lightning Fabric."""

import atexit
import gc
import os
from typing import Any

import torch

from ..recipe import Recipe


def launch(recipe: Recipe) -> Any:
    """Launch Fabric with the recipe's devices, precision and processes; under torchrun or SLURM it uses theirs."""
    from lightning_fabric import Fabric

    several = recipe.devices * recipe.nodes > 1
    if several and not torch.cuda.is_available():
        torch.set_num_threads(max(1, (os.cpu_count() or 1) // recipe.devices))
    fabric = Fabric(
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
