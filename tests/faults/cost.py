"""What verification costs: its share of a small training, and its seconds in a page of 200 runs.

A profile of one command each is summed over hashing and over the modules that exist only to verify. The limits are 1 %
of the processor time of the training and 0.1 s for the page; other work on the machine does not count, nor does the
time that the profiler itself takes per call.
"""

import cProfile
import pstats
import shutil
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from _process import run
from campaign import Case, Verdict

VERIFYING = ("run_folder/manifest.py", "run_folder/facts.py", "run_folder/owner.py", "filelock", "hashlib", "crc32")
TRAIN = "train digits-opl --scale small --out ."
RUNS, CALLS = 200, 100_000


def cases(scratch: Path, share: float) -> Iterator[Case]:
    """Measure both commands; a sample is smaller and has no limit for the training, which is over too soon."""
    short, runs = share < 0.1, 10 if share < 0.1 else RUNS
    train = f"{TRAIN} --epochs 5" if short else TRAIN
    yield Case("a training", lambda out: _measure(train, out, 1.0 if short else 0.01, 0.0))
    yield Case(f"a page of {runs} runs", lambda out: _page(out, train, runs))


def _page(out: Path, train: str, runs: int) -> Verdict:
    if (ended := run(train, out)).code:
        return Verdict(ended.outcome, "no run to show", ended)
    for seed in range(runs):
        shutil.copytree(out / "digits-opl" / "seed-0", out / "many" / str(seed) / "digits-opl" / "seed-0")
    return _measure("report many", out, 0.0, 0.1)


def _nothing() -> None:
    """Called to see what the profiler adds to a function that is called."""


def _call_nothing() -> None:
    """Called to see what the profiler adds to a function that calls others."""
    for _ in range(CALLS):
        _nothing()


def _measure(argv: str, out: Path, share: float, most: float) -> Verdict:
    """Verification takes at most a share of the command, or these seconds."""

    def function() -> None:
        from opl.experiments.cli import main

        profile = cProfile.Profile(time.process_time)
        profile.runcall(_call_nothing)
        assert profile.runcall(main, argv.split()) == 0
        profile.dump_stats(out / "profile")

    ended = run("", out, function=function, limit=600.0)
    if ended.code:
        return Verdict(ended.outcome, f"opl {argv}", ended)
    stats = pstats.Stats(str(out / "profile"))
    own = _own_seconds(stats.stats)  # type: ignore[attr-defined]
    verifying = sum(seconds for name, seconds in own.items() if any(part in name for part in VERIFYING))
    total = sum(own.values())
    text = f"verification takes {verifying:.3f} of {total:.2f} s of opl {argv} ({verifying / total:.2%})"
    return Verdict("right" if verifying <= max(share * total, most) else "lost", text, ended)


def _own_seconds(stats: dict[tuple[str, int, str], Any]) -> dict[str, float]:
    """The time inside each function, without what the profiler adds per call to the caller and to the called."""
    made: Counter[tuple[str, int, str]] = Counter()
    for row in stats.values():
        made.update({caller: calls[1] for caller, calls in row[4].items()})
    called, calling = (
        next(row[2] / CALLS for key, row in stats.items() if key[2] == name) for name in ("_nothing", "_call_nothing")
    )
    own = {key: row[2] - row[1] * called - made[key] * calling for key, row in stats.items()}
    return {f"{path} {name} {line}": max(0.0, seconds) for (path, line, name), seconds in own.items()}
