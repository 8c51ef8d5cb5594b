"""Work on several processes of this machine at once, joined by gloo."""

import gc
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def together(work: Callable[..., None], world: int, folder: Path, *args: Any) -> None:
    """Call `work(rank, *args)` on each of `world` processes; an error of one is an error here.

    `DistributedDataParallel` refers to itself and so outlives `work`. It is collected before the group ends: else
    gloo's threads live on, and now and then one takes the process down with it while Python is shutting down.
    """
    mp.spawn(_inside, (work, world, str(folder / "store"), args), nprocs=world)


def _inside(rank: int, work: Callable[..., None], world: int, store: str, args: tuple[Any, ...]) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world)
    work(rank, *args)
    gc.collect()
    dist.destroy_process_group()


def alone_and_in_two(script: str, folder: Path) -> None:
    """Run a script with the words `1 FOLDER/1` and then `2 FOLDER/2`: how many processes to use, and where to."""
    file = folder / "script.py"
    file.write_text(script)
    for devices in ("1", "2"):
        words = [sys.executable, str(file), devices, str(folder / devices)]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        done = subprocess.run(words, capture_output=True, text=True, env=environment, check=False)
        assert done.returncode == 0, done.stderr
