"""What is wrong with a recipe on this machine, found before a folder is made, a process started or an image read."""

import os
from collections.abc import Mapping

import torch

from ...errors import OptionError
from ..recipe import Recipe
from ..types import TaskShape
from .build import build_model

PROCESSES_PER_CORE = 4
LAUNCHERS = (
    "MASTER_ADDR",
    "SLURM_NTASKS",
    "TORCHELASTIC_RUN_ID",
    "LOCAL_RANK",
    "KUBERNETES_PORT",
    "LSB_JOBID",
    "NODE_RANK",
)
"""Variables by which torchrun, SLURM and others say that they started this process among others."""


def check_recipe(recipe: Recipe) -> None:
    """Raise `OptionError` if a recipe cannot be trained here; its model and objective are built once to see."""
    _check_processes(recipe.devices, recipe.nodes, os.environ)
    recipe.data.check()
    tuple(recipe.data.augment)
    model, classes = build_model(recipe), recipe.data.num_classes
    with torch.random.fork_rng(devices=[]):
        recipe.method.build(TaskShape(classes, model.feature_dim, (1,) * classes, 1, model if recipe.after else None))


def _check_processes(devices: int, nodes: int, environment: Mapping[str, str]) -> None:
    """Raise an error for more processes than this machine can hold, or for nodes that nobody starts."""
    graphics, cores = torch.cuda.device_count(), os.cpu_count() or 1
    most = graphics or PROCESSES_PER_CORE * cores
    if devices > most:
        there = f"{graphics} accelerators" if graphics else f"{cores} cores, for at most {PROCESSES_PER_CORE} each"
        raise OptionError(f"devices is {devices}, and this machine has {there}: give 1 to {most}.")
    if nodes > 1 and not any(name in environment for name in LAUNCHERS):
        raise OptionError(
            f"nodes is {nodes}, and nothing started this process on {nodes} nodes: start it with torchrun or SLURM on "
            "each of them, or leave --nodes out."
        )
