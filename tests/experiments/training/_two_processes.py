"""`everything OUT` or `lost RANK SIGNAL OUT`: what several processes do together.

Everything is in one script, because starting two processes takes longer than these runs.
"""

import json
import math
import os
import signal
import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from unittest import mock

import torch.distributed as dist
from _small_parts import TERM, at_step, few, send

from _digits_methods import METHODS
from opl.errors import OplError, StoppedError
from opl.experiments import paper
from opl.experiments.data.batches import Batches
from opl.experiments.data.noisy_labels import UniformNoise
from opl.experiments.methods import CrossEntropy, TruncatedLq
from opl.experiments.run_folder import RunFolder
from opl.experiments.training.run import run
from opl.optim import SGD, Steps

PARTS = ((1, 0, 0), (1, 1, 1), (5, 1, 0), (5, 0, 1), (5, 3, 2))
PLAIN = {"optimizer": SGD(lr=1.0, momentum=0.0, weight_decay=0.0), "schedule": Steps(milestones=())}
STEPS = few(36, epochs=5, batch_size=36)  # one step an epoch, so that its record has the values of that step
GENTLE = {**PLAIN, "optimizer": SGD(lr=0.1, momentum=0.9)}
LARGE = few(23, epochs=2, batch_size=16, **GENTLE)  # the same images as in four batches of four
PRUNING = {"method": TruncatedLq(start=1, every=1), "noise": UniformNoise(rate=0.2), "epochs": 2}


def rank() -> int:
    return int(os.environ["LOCAL_RANK"])


def two(recipe, out, **changes):
    return run(replace(recipe, devices=2, **changes), out)


def everything(out: Path) -> None:
    for train, val, test in PARTS:
        two(few(train, val, test), out / f"parts-{train}-{val}-{test}")
    methods = {"entropy": CrossEntropy(), **METHODS}
    for name, method in methods.items():
        two(few(5, 1, 1, method=method), out / f"method-{name}")
    two(few(5, 1, 1, **PRUNING), out / "method-pruning")
    if rank() == 0:
        (out / "methods.json").write_text(json.dumps([*methods, "pruning"]))
    two(few(5, 1, 1, epochs=2), out / "as-one-ddp")
    two(few(5, 1, 1, epochs=2), out / "as-one-fsdp", strategy="fsdp")
    for strategy in ("ddp", "fsdp"):
        two(few(32, batch_size=32, **PLAIN), out / f"gradients-{strategy}", strategy=strategy)
        stop(out, strategy)
    two(STEPS, out / "steps")
    two(LARGE, out / "exact", batch_size=4, accumulate=4, accumulation="exact")
    skip(out)


def stop(out: Path, strategy: str) -> None:
    """A run that is stopped by a signal to the second process, and one that is not."""
    recipe = few(40, 1, 1, epochs=2)
    two(recipe, out / f"whole-{strategy}", strategy=strategy)
    with at_step(0, 4, TERM) if rank() == 1 else nullcontext():
        try:
            two(recipe, out / f"stopped-{strategy}", strategy=strategy)
            end = ["nothing", 0]
        except (StoppedError, SystemExit) as error:
            end = [type(error).__name__, error.code]
    dist.barrier()
    state = RunFolder.of(out / f"stopped-{strategy}", recipe.name, 0).load()
    ends = [None, None]
    dist.all_gather_object(ends, [*end, [state["epoch"], state["step"]]])
    if rank() == 0:
        (out / f"stopped-{strategy}.json").write_text(json.dumps(ends))
    dist.barrier()
    two(recipe, out / f"stopped-{strategy}", strategy=strategy)


def skip(out: Path) -> None:
    """An image of the second process alone is not finite."""
    real = Batches.epoch

    def epoch(batches, number, start_step=0):
        for at, batch in enumerate(real(batches, number, start_step), start_step):
            if (number, at, batches.rank) == (0, 2, 1):
                batch.images[0, 0, 0, 0] = math.nan
            yield batch

    with mock.patch.object(Batches, "epoch", epoch):
        two(few(16, 1, 1, epochs=2), out / "skip", on_nan="skip")


def lost(which: int, signum: int, out: Path) -> None:
    """A run of which one process is killed or stopped after some steps."""
    recipe = replace(paper.recipe("digits-opl", "small"), devices=2, timeout=15.0, checkpoint_every="3 steps")
    here = int(os.environ.get("LOCAL_RANK", "0")) == which
    first = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") == "0"
    with at_step(0, 7, send(signum)) if here and first else nullcontext():
        try:
            run(replace(recipe, epochs=3), out)
        except OplError as error:
            sys.exit(f"opl: {error}")


if __name__ == "__main__":
    if sys.argv[1] == "everything":
        everything(Path(sys.argv[2]))
    else:
        lost(int(sys.argv[2]), signal.Signals[sys.argv[3]], Path(sys.argv[4]))
