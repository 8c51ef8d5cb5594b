"""Runs and evaluations that are killed at random moments, resumed, and compared with an uninterrupted one.

A third of the kills wait until a file is being written. Every eighth signal is SIGTERM, after which the process must
exit in time, with exit code 143 and a message that says how to resume.
"""

import random
import shutil
import signal
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

from _files import differences, epochs, file_names, snapshot
from _process import Ended, prepare, run, start
from campaign import Case, Verdict

PATIENCE = 30.0  # seconds in which a process must exit after SIGTERM, on a busy machine
CHAIN = 6  # kills of one run at most before it may finish
ATTACK = "attack --images 30 --iterations 3 --queries 40 --batch 10 --no-sanity"


class Job(NamedTuple):
    """A command to kill, the recipe whose run folder it writes, and how often it is killed."""

    kills: int
    recipe: str
    argv: str
    prepare: str = ""
    """A command that must have run before; it is never killed."""
    fresh: bool = False


JOBS = {
    "best validation": Job(35, "digits-ce", "train digits-ce --scale tiny --selection best-val --epochs 8 --out ."),
    "plain": Job(70, "digits-opl", "train digits-opl --scale small --epochs 12 --data.val 100 --out ."),
    **{
        name: Job(35, name, f"train {name} --scale tiny --out .")
        for name in (
            "cifar10-noisy-uniform-tl-opl", "cifar10-noisy-class-ce-opl", "cifar-fs-rfs-opl", "pacs-art-rsc-opl",
            "cifar10-robust-madry-opl",
        )
    },
    "episodes": Job(
        13, "cifar-fs-rfs", "evaluate cifar-fs-rfs/seed-0 episodes --episodes 60 --shot 1 5",
        "train cifar-fs-rfs --scale tiny --out .",
    ),
    "attack": Job(
        13, "cifar10-robust-trades", f"evaluate cifar10-robust-trades/seed-0 {ATTACK}",
        "train cifar10-robust-trades --scale tiny --out .",
    ),
    "2 processes": Job(
        13, "digits-opl", "train digits-opl --scale tiny --devices 2 --data.val 40 --out .", fresh=True
    ),
}  # fmt: skip
INTERRUPTS = 8  # of `opl reproduce`


def cases(scratch: Path, share: float) -> Iterator[Case]:
    """Kill every job, then interrupt `opl reproduce`."""
    for name, job in list(JOBS.items())[: 1 if share < 0.1 else None]:
        whole, prepared = scratch / f"{name}-whole", scratch / f"{name}-prepared"
        prepared.mkdir()
        for argv in filter(None, (job.prepare, job.argv)):
            shutil.rmtree(whole, ignore_errors=True)
            shutil.copytree(prepared, whole, symlinks=True)
            seconds = prepare(argv, whole if argv == job.argv else prepared, fresh=job.fresh).seconds
        for first in range(0, job.kills, CHAIN):
            times = min(CHAIN, job.kills - first)
            chain = partial(_chain, job, whole, prepared, seconds, times, random.Random(first))
            yield Case(f"{name}: kills {first + 1} to {first + times}", chain, times)
    for number in range(INTERRUPTS):
        yield Case(f"opl reproduce interrupted, {number}", partial(_interrupt, random.Random(number)))


def _chain(job: Job, whole: Path, prepared: Path, seconds: float, times: int, rng: random.Random, out: Path) -> Verdict:
    """Kill a run `times` times, let it finish, and compare; a run that finishes before a kill is started anew."""
    killed = 0
    while True:
        shutil.rmtree(out)
        shutil.copytree(prepared, out, symlinks=True)
        while killed < times and (verdict := _kill(job, out, seconds, rng)):
            killed += 1
            if verdict.outcome != "right":
                return verdict
        verdict = _judge(run(job.argv, out, fresh=job.fresh), job, out, whole)
        if verdict.outcome != "right" or killed == times:
            return verdict


def _judge(ended: Ended, job: Job, out: Path, whole: Path) -> Verdict:
    if ended.fault or ended.code:
        return Verdict(ended.fault or "lost", "cannot be finished", ended)
    if different := differences(*(snapshot(place / job.recipe / "seed-0") for place in (out, whole))):
        return Verdict("lost" if different == ["epochs"] else "silent", f"differs in {', '.join(different)}", ended)
    missing, added = file_names(whole) - file_names(out), file_names(out) - file_names(whole)
    if missing:
        return Verdict("lost", f"lacks {sorted(missing)[:3]}", ended)
    return Verdict("orphan", f"left {sorted(added)[:3]}", ended) if added else Verdict("right")


def _kill(job: Job, out: Path, seconds: float, rng: random.Random) -> Verdict | None:
    """Start the job and stop it at a random moment; None if it had finished before."""
    process, folder = start(job.argv, out, fresh=job.fresh), out / job.recipe / "seed-0"
    deadline = process.started + rng.uniform(0, 1.05 * seconds)
    process.wait_until(lambda: time.monotonic() >= deadline)
    writing, gentle = rng.random() < 1 / 3, rng.random() < 1 / 8
    if writing:
        process.wait_until(lambda: _is_writing(folder))
    if process.child.exitcode is not None:
        process.wait()
        return None
    case = f"{'SIGTERM' if gentle else 'SIGKILL'} after {len(epochs(folder))} epochs{' during a write' * writing}"
    training = bool(epochs(folder)) and not (folder / "done").exists() and job.argv.startswith("train")
    process.signal(signal.SIGTERM if gentle else signal.SIGKILL, group=not gentle and rng.random() < 0.5)
    ended = process.wait(PATIENCE)
    if ended.hung or ended.orphans:
        return Verdict("hang" if ended.hung else "orphan", case, ended)
    silent = gentle and training and ended.code and (ended.code != 143 or "resume" not in ended.output)
    return Verdict("silent", f"{case}: no message about resuming", ended) if silent else Verdict("right")


def _is_writing(folder: Path) -> bool:
    try:
        names = [entry.name for place in (folder, folder / "measures") if place.is_dir() for entry in place.iterdir()]
    except OSError:
        return False
    return any(name.endswith(".tmp") or "-new." in name for name in names)


def _interrupt(rng: random.Random, out: Path) -> Verdict:
    """An interrupted `opl reproduce` leaves no trainer running."""
    process = start(f"reproduce demo --scale {rng.choice(['small', 'tiny'])} --jobs 2 --out .", out, fresh=True)
    process.wait_until(lambda: any(out.rglob("recipe.json")))
    time.sleep(rng.uniform(0, 3))
    number = rng.choice([signal.SIGTERM, signal.SIGTERM, signal.SIGKILL, signal.SIGINT])
    process.signal(number, group=False)
    ended = process.wait(PATIENCE)
    fault = ended._replace(code=0).fault  # the exit code of a killed process is negative
    return Verdict(fault or "right", signal.Signals(number).name, ended)
