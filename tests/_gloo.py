"""Work on several processes of this machine at once, joined by gloo."""

import gc
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.nn.functional  # before a group exists: see opl/_kernels/normalize.py
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


IN_TWO = """
import json, sys
from dataclasses import replace
from pathlib import Path
from opl.experiments.training.build import parse_recipe
from opl.experiments.training.run import run
for recipe in json.loads(Path(sys.argv[1]).read_text()):
    run(replace(parse_recipe(recipe), devices=2), sys.argv[2])
"""


def alone_and_in_two(folder: Path, *recipes: Any) -> None:
    """Train recipes in this process, into FOLDER/1, and then in two others that work together, into FOLDER/2."""
    from opl.experiments.settings import to_json
    from opl.experiments.training.run import run

    for recipe in recipes:
        run(recipe, folder / "1")
    script, given = folder / "in_two.py", folder / "recipes.json"
    script.write_text(IN_TWO)  # a file, because the first process starts it again as the second
    given.write_text(json.dumps([to_json(recipe) for recipe in recipes]))
    words = [sys.executable, str(script), str(given), str(folder / "2")]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(words, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
