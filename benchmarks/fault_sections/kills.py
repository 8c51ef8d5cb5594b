"""Runs and measures that are killed at random moments, started again, and compared with an uninterrupted one.

A third of the kills wait until a file is being written. Every eighth signal is a SIGTERM, after which the process must
end by itself within the stated time, with exit code 143 and a line that says how to resume.
"""

import random
import shutil
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ._process import LIMIT, Ended, Started, run, start, sweep_orphans
from ._runs import differences, epochs, names, snapshot
from ._tally import Tally, common_fault
from ._trees import ATTACK

PATIENCE = 10.0  # seconds in which a process must end after SIGTERM
SLACK = 20.0  # seconds more on a busy machine
OUT, CACHE = "{out}", "cache"


@dataclass(frozen=True)
class Job:
    """A command to kill, and the run folder that it writes below its output folder."""

    name: str
    words: tuple[str, ...]
    folder: str
    before: tuple[tuple[str, ...], ...] = ()
    """Commands that must have been run before; their output is copied and not killed."""
    fresh: bool = False
    part: int = 8
    """How many of the kills, relative to other jobs."""

    def start(self, out: Path) -> Started:
        """Start it, or start it again."""
        words = [word.replace(OUT, str(out)) for word in self.words]
        return start(words, cwd=out, environment={"OPL_CACHE": str(out / CACHE)}, fresh=self.fresh)


def _train(recipe: str, *flags: str, scale: str = "tiny", fresh: bool = False, part: int = 8, name: str = "") -> Job:
    words = ("train", recipe, "--scale", scale, "--out", OUT, *flags)
    return Job(name or recipe, words, f"{recipe}/seed-0", fresh=fresh, part=part)


def _evaluate(recipe: str, *words: str) -> Job:
    folder = f"{recipe}/seed-0"
    trained = ("train", recipe, "--scale", "tiny", "--out", OUT)
    return Job(f"{recipe} {words[0]}", ("evaluate", f"{OUT}/{folder}", *words), folder, before=(trained,), part=3)


JOBS = (
    _train("digits-opl", "--epochs", "12", "--data.val", "100", scale="small", part=16),
    _train("digits-ce", "--selection", "best-val", "--epochs", "8"),
    _train("cifar10-noisy-uniform-tl-opl"),
    _train("cifar10-noisy-class-ce-opl"),
    _train("cifar-fs-rfs-opl"),
    _train("pacs-art-rsc-opl"),
    _train("cifar10-robust-madry-opl"),
    _evaluate("cifar-fs-rfs", "episodes", "--episodes", "60", "--shot", "1", "5"),
    _evaluate("cifar10-robust-trades", *ATTACK),
    _train("digits-opl", "--devices", "2", "--data.val", "40", fresh=True, part=3, name="digits-opl on 2 processes"),
)
SMALL = JOBS[1:2]


def kills(scratch: Path, tally: Tally, share: float) -> None:
    """Kill runs until every job has had its share of the kills, then TERM `opl reproduce`."""
    chance = random.Random(0)
    total = max(4, round(320 * share))
    jobs = JOBS if total > 2 * len(JOBS) else SMALL
    parts = sum(job.part for job in jobs)
    for job in jobs:
        wanted = max(1, round(total * job.part / parts))
        place = scratch / job.name.replace(" ", "-")
        reference = _Reference(job, place / "whole")
        if reference.fault is not None:
            tally.add(*reference.fault)
            continue
        number = 0
        while wanted > 0:
            number += 1
            wanted -= _chain(job, reference, place / str(number), min(wanted, chance.randint(3, 9)), chance, tally)
    for number in range(round(8 * share)):
        _terminate_reproduce(scratch / f"reproduce-{number}", chance, tally)


class _Reference:
    """The uninterrupted run: how long it takes, and what it leaves."""

    def __init__(self, job: Job, out: Path) -> None:
        out.mkdir(parents=True)
        self.prepared = out.with_name("prepared")
        self.fault: tuple | None = None
        for words in job.before:
            run([word.replace(OUT, str(out)) for word in words], cwd=out, environment={"OPL_CACHE": str(out / CACHE)})
        shutil.copytree(out, self.prepared, symlinks=True)
        ended = job.start(out).wait()
        if ended.code or common_fault(ended):
            self.fault = (common_fault(ended) or "lost", f"{job.name}: the uninterrupted run failed", ended)
        self.seconds = ended.seconds
        self.folder = out / job.folder
        self.snapshot, self.names = snapshot(self.folder), names(out)


def _chain(job: Job, reference: _Reference, out: Path, wanted: int, chance: random.Random, tally: Tally) -> int:
    """Kill a run up to `wanted` times, let it finish, and judge it; returns how many kills there were."""
    shutil.copytree(reference.prepared, out, symlinks=True)
    cases: list[str] = []
    faults: list[tuple] = []
    while len(cases) < wanted:
        case = _kill(job, out, reference.seconds, chance, faults)
        if case is None:
            break
        cases.append(f"{job.name}: {case}")
    ended = job.start(out).wait()
    fault = _judge(ended, reference, out, job)
    for place, case in enumerate(cases):
        tally.add(*((fault[0], f"{case}; {fault[1]}", None if place else ended) if fault else ("right", case)))
    for each in faults:
        tally.add(*each)
    shutil.rmtree(out)
    return len(cases)


def _judge(ended: Ended, reference: _Reference, out: Path, job: Job) -> tuple | None:
    """What is wrong with a run that was killed and finished; None if nothing is."""
    if (fault := common_fault(ended)) or ended.code:
        return fault or "lost", "cannot be finished"
    different = differences(snapshot(out / job.folder), reference.snapshot)
    if different:
        return "lost" if different == ["epochs"] else "silent", f"differs in {', '.join(different)}"
    more, fewer = names(out) - reference.names, reference.names - names(out)
    if fewer:
        return "lost", f"lacks {', '.join(sorted(fewer)[:3])}"
    return ("orphan", f"left {', '.join(sorted(more)[:3])}") if more else None


def _kill(job: Job, out: Path, seconds: float, chance: random.Random, faults: list[tuple]) -> str | None:
    """Start the job and stop it at a random moment; returns how, or None if it had finished by then."""
    process = job.start(out)
    folder = out / job.folder
    deadline = process.began + chance.uniform(0, 1.05 * seconds)
    while time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.001)
    writing = chance.random() < 1 / 3
    while writing and process.poll() is None and not _is_writing(folder):
        time.sleep(0.0002)
    gentle = chance.random() < 1 / 8
    if process.poll() is not None:
        process.wait()
        return None
    case = f"{'SIGTERM' if gentle else 'SIGKILL'} after {len(epochs(folder))} epochs"
    case += " while a file was written" if writing else ""
    if gentle:
        _terminate(process, case, folder, faults)
    else:
        process.signal(signal.SIGKILL, group=chance.random() < 0.5)
        ended = process.wait(LIMIT)
        if ended.orphans:
            faults.append(("orphan", f"{job.name}: {case}: {ended.orphans[0]}", ended))
    return case


def _terminate(process: Started, case: str, folder: Path, faults: list[tuple]) -> None:
    """SIGTERM ends a run within the stated time, and once it trains, with exit code 143 and a word about resuming."""
    training = bool(epochs(folder)) and not (folder / "done").exists()
    process.signal(signal.SIGTERM, group=False)
    ended = process.wait(PATIENCE + SLACK)
    if ended.hung or ended.orphans:
        faults.append(("hang" if ended.hung else "orphan", f"{folder.parent.name}: {case}", ended))
    elif training and (ended.code not in (0, 143) or (ended.code and "resume" not in ended.said)):
        faults.append(("silent", f"{folder.parent.name}: {case}: no word about resuming", ended))


def _is_writing(folder: Path) -> bool:
    try:
        return any(name.endswith(".tmp") or "-new." in name for name in _listed(folder))
    except OSError:
        return False


def _listed(folder: Path) -> Sequence[str]:
    return [entry.name for place in (folder, folder / "measures") if place.is_dir() for entry in place.iterdir()]


def _terminate_reproduce(out: Path, chance: random.Random, tally: Tally) -> None:
    """A TERMed `opl reproduce` leaves no trainer behind, whatever it was doing."""
    words = ["reproduce", "demo", "--scale", chance.choice(["small", "tiny"]), "--jobs", "2", "--out", str(out)]
    out.mkdir()
    process = start(words, cwd=out, fresh=True)
    while process.poll() is None and not any(out.rglob("recipe.json")):
        time.sleep(0.01)
    time.sleep(chance.uniform(0, 3))
    number = chance.choice([signal.SIGTERM, signal.SIGTERM, signal.SIGKILL, signal.SIGINT])
    process.signal(number, group=False)
    ended = process.wait(PATIENCE + SLACK)
    case = f"opl {' '.join(words[:4])} ended by {signal.Signals(number).name}"
    if ended.hung or ended.orphans:
        tally.add("hang" if ended.hung else "orphan", f"{case}: {', '.join(ended.orphans)[:200]}", ended)
    else:
        tally.add("traceback" if "Traceback" in ended.said else "right", case, ended)
    sweep_orphans(0.0)
    shutil.rmtree(out)
