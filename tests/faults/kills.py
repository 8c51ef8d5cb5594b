"""Runs and evaluations that are killed at random moments, resumed, and compared with an uninterrupted one.

A third of the kills wait until a file is being written. Every eighth signal is SIGTERM, after which the process must
exit in time, with exit code 143 and a message that says how to resume.
"""

import random
import shutil
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from _process import Command, Ended, start
from _run_files import differences, epochs, file_names, snapshot
from _tally import Tally

PATIENCE = 30.0  # seconds in which a process must exit after SIGTERM, on a busy machine
ATTACK = ("attack", "--images", "30", "--iterations", "3", "--queries", "40", "--batch", "10", "--no-sanity")


@dataclass(frozen=True)
class Job:
    """A command to kill, the recipe whose run folder it writes, and its share of the kills."""

    name: str
    argv: tuple[str, ...]
    recipe: str
    prepare: tuple[str, ...] = ()
    """A command that must have run before; its output is copied and never killed."""
    fresh: bool = False
    share: int = 8

    def start(self, out: Path, argv: tuple[str, ...] = ()) -> Command:
        """Start or resume the command in a folder."""
        filled = [word.replace("{out}", str(out)) for word in argv or self.argv]
        return start(filled, cwd=out, environment={"OPL_CACHE": str(out / "cache")}, fresh=self.fresh)

    def folder(self, out: Path) -> Path:
        """The run folder."""
        return out / self.recipe / "seed-0"


def _train(recipe: str, *flags: str, scale: str = "tiny", **options) -> Job:
    argv = ("train", recipe, "--scale", scale, "--out", "{out}", *flags)
    return Job(options.pop("name", recipe), argv, recipe, **options)


def _evaluate(recipe: str, *protocol: str) -> Job:
    train = ("train", recipe, "--scale", "tiny", "--out", "{out}")
    return Job(f"{recipe} {protocol[0]}", ("evaluate", f"{{out}}/{recipe}/seed-0", *protocol), recipe, train, share=3)


JOBS = (
    _train("digits-opl", "--epochs", "12", "--data.val", "100", scale="small", share=16),
    _train("digits-ce", "--selection", "best-val", "--epochs", "8"),
    _train("cifar10-noisy-uniform-tl-opl"),
    _train("cifar10-noisy-class-ce-opl"),
    _train("cifar-fs-rfs-opl"),
    _train("pacs-art-rsc-opl"),
    _train("cifar10-robust-madry-opl"),
    _evaluate("cifar-fs-rfs", "episodes", "--episodes", "60", "--shot", "1", "5"),
    _evaluate("cifar10-robust-trades", *ATTACK),
    _train("digits-opl", "--devices", "2", "--data.val", "40", fresh=True, share=3, name="digits-opl on 2 processes"),
)


def kills(scratch: Path, tally: Tally, share: float) -> None:
    """Kill every job its share of the times, then interrupt `opl reproduce`."""
    rng = random.Random(0)
    total = max(4, round(320 * share))
    jobs = JOBS if total > 2 * len(JOBS) else JOBS[1:2]
    for job in jobs:
        remaining = max(1, round(total * job.share / sum(job.share for job in jobs)))
        whole = scratch / job.name.replace(" ", "-")
        prepared = whole.with_name(f"{whole.name}-prepared")
        whole.mkdir()
        if job.prepare:
            job.start(whole, job.prepare).wait()
        shutil.copytree(whole, prepared, symlinks=True)
        ended = job.start(whole).wait()
        if ended.code or ended.fault:
            tally.add(ended.fault or "lost", f"{job.name}: the uninterrupted run failed", ended)
            continue
        while remaining > 0:
            remaining -= _chain(job, whole, prepared, ended.seconds, min(remaining, rng.randint(3, 9)), rng, tally)
    for _ in range(round(8 * share)):
        _interrupt_reproduce(scratch / "reproduce", rng, tally)


def _chain(job: Job, whole: Path, prepared: Path, seconds: float, times: int, rng: random.Random, tally: Tally) -> int:
    """Kill a run up to `times` times, let it finish, and compare; returns the number of kills."""
    out = whole.with_name(f"{whole.name}-killed")
    shutil.copytree(prepared, out, symlinks=True)
    cases = []
    while len(cases) < times and (case := _kill(job, out, seconds, rng, tally)):
        cases.append(f"{job.name}: {case}")
    ended = job.start(out).wait()
    outcome, what = _judge(ended, job, out, whole)
    for case in cases:
        tally.add(outcome, f"{case}; {what}", ended if outcome != "right" else None)
    shutil.rmtree(out)
    return len(cases) or 1


def _judge(ended: Ended, job: Job, out: Path, whole: Path) -> tuple[str, str]:
    if ended.fault or ended.code:
        return ended.fault or "lost", "cannot be finished"
    if different := differences(snapshot(job.folder(out)), snapshot(job.folder(whole))):
        return "lost" if different == ["epochs"] else "silent", f"differs in {', '.join(different)}"
    missing, added = file_names(whole) - file_names(out), file_names(out) - file_names(whole)
    if missing:
        return "lost", f"lacks {sorted(missing)[:3]}"
    return ("orphan", f"left {sorted(added)[:3]}") if added else ("right", "equal to the uninterrupted run")


def _kill(job: Job, out: Path, seconds: float, rng: random.Random, tally: Tally) -> str:
    """Start the job and stop it at a random moment; returns a description, empty if it had finished before."""
    process, folder = job.start(out), job.folder(out)
    deadline = process.started + rng.uniform(0, 1.05 * seconds)
    process.wait_until(lambda: time.monotonic() >= deadline)
    writing, gentle = rng.random() < 1 / 3, rng.random() < 1 / 8
    if writing:
        process.wait_until(lambda: _is_writing(folder))
    if process.child.exitcode is not None:
        process.wait()
        return ""
    case = f"{'SIGTERM' if gentle else 'SIGKILL'} after {len(epochs(folder))} epochs{' during a write' * writing}"
    training = bool(epochs(folder)) and not (folder / "done").exists() and job.argv[0] == "train"
    process.signal(signal.SIGTERM if gentle else signal.SIGKILL, group=not gentle and rng.random() < 0.5)
    ended = process.wait(PATIENCE)
    if ended.hung or ended.orphans:
        tally.add("hang" if ended.hung else "orphan", f"{job.name}: {case}", ended)
    elif gentle and training and ended.code and (ended.code != 143 or "resume" not in ended.output):
        tally.add("silent", f"{job.name}: {case}: no message about resuming", ended)
    return case


def _is_writing(folder: Path) -> bool:
    try:
        names = [entry.name for place in (folder, folder / "measures") if place.is_dir() for entry in place.iterdir()]
    except OSError:
        return False
    return any(name.endswith(".tmp") or "-new." in name for name in names)


def _interrupt_reproduce(out: Path, rng: random.Random, tally: Tally) -> None:
    """An interrupted `opl reproduce` leaves no trainer running."""
    out.mkdir()
    argv = ["reproduce", "demo", "--scale", rng.choice(["small", "tiny"]), "--jobs", "2", "--out", str(out)]
    process = start(argv, cwd=out, fresh=True)
    process.wait_until(lambda: any(out.rglob("recipe.json")))
    time.sleep(rng.uniform(0, 3))
    number = rng.choice([signal.SIGTERM, signal.SIGTERM, signal.SIGKILL, signal.SIGINT])
    process.signal(number, group=False)
    ended = process.wait(PATIENCE)
    fault = "hang" if ended.hung else "orphan" if ended.orphans else "traceback" if "Traceback" in ended.output else ""
    tally.add(fault or "right", f"opl {' '.join(argv[:4])} ended by {signal.Signals(number).name}", ended)
    shutil.rmtree(out)
