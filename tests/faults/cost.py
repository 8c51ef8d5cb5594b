"""What verification costs: its share of a small training, and its seconds in a page of 200 runs.

A timer interrupts the command, and each interval of its processor time counts for the file of the running function. The
limits are 1 % of the training and 0.1 s for the page; other work on the machine does not count.
"""

import shutil
import signal
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from _process import prepare
from campaign import Case, Verdict

VERIFYING = ("run_folder/manifest.py", "run_folder/checkpoints.py", "run_folder/facts.py", "run_folder/owner.py")
VERIFYING += ("filelock", "hashlib")
TRAIN = "train digits-opl --scale small --out ."
RUNS, INTERVAL = 200, 0.001
REPEATS = 3  # of which the shortest counts, because other work slows down the processor too


def cases(scratch: Path, share: float) -> Iterator[Case]:
    """Measure both commands; a sample is smaller and has no limit for the training, which is over too soon."""
    short, runs = share < 0.1, 10 if share < 0.1 else RUNS
    train = f"{TRAIN} --epochs 5" if short else TRAIN
    yield Case("a training", partial(_measure, train, 1.0 if short else 0.01, 0.0))
    yield Case(f"a page of {runs} runs", partial(_page, train, runs))


def _page(train: str, runs: int, out: Path) -> Verdict:
    prepare(train, out)
    for seed in range(runs):
        shutil.copytree(out / "digits-opl" / "seed-0", out / "many" / str(seed) / "digits-opl" / "seed-0")
    return _measure("report many", 0.0, 0.1, out)


def _measure(argv: str, share: float, most: float, out: Path) -> Verdict:
    """Verification takes at most a share of the command, or these seconds."""
    verifying, other = min(_sample(argv, out) for _ in range(REPEATS))
    part = verifying / (verifying + other)
    text = f"verification takes {verifying:.3f} of {verifying + other:.2f} s of opl {argv} ({part:.2%})"
    return Verdict("right" if part <= share or verifying <= most else "lost", text)


def _sample(argv: str, out: Path) -> tuple[float, float]:
    """The seconds of verification and of everything else."""

    def function() -> None:
        from opl.experiments.cli import main

        seconds: Counter[bool] = Counter()
        last = time.process_time()

        def count(_: int, frame: Any) -> None:
            nonlocal last
            now = time.process_time()
            seconds[any(part in frame.f_code.co_filename for part in VERIFYING)] += now - last
            last = now

        signal.signal(signal.SIGPROF, count)
        signal.setitimer(signal.ITIMER_PROF, INTERVAL, INTERVAL)
        assert main(argv.split()) == 0
        signal.setitimer(signal.ITIMER_PROF, 0)
        (out / "seconds").write_text(f"{seconds[True]} {seconds[False]}")

    shutil.rmtree(out / "digits-opl", ignore_errors=True)  # a finished run would not be trained again
    prepare("", out, function=function, limit=600.0)
    verifying, other = map(float, (out / "seconds").read_text().split())
    return verifying, other
