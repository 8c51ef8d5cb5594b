"""What verification costs: its share of a small training, and its seconds in a page of 200 runs.

A profile of one command each is summed over hashing and over the modules that exist only to verify. The limits are 1 %
of the processor time of the training and 0.1 s for the page.
"""

import cProfile
import pstats
import shutil
from pathlib import Path

from _process import run
from _tally import Tally

VERIFYING = ("run_folder/manifest.py", "run_folder/facts.py", "run_folder/owner.py", "filelock", "hashlib", "crc32")
TRAIN = ("train", "digits-opl", "--scale", "small")


def cost(scratch: Path, tally: Tally, share: float) -> None:
    """Measure both commands."""
    runs, many = scratch / "runs", scratch / "many"
    argv = [*TRAIN, *(("--epochs", "5") if share < 0.1 else ()), "--out", str(runs)]
    verifying, total = _measure(argv, scratch / "train.prof", tally)
    tally.notes.append(f"verification takes {verifying:.3f} of {total:.2f} s of opl {' '.join(argv[:4])}")
    tally.add("right" if verifying <= 0.01 * total or share < 0.1 else "lost", f"{verifying / total:.2%} of a training")
    count = 10 if share < 0.1 else 200
    for seed in range(count):
        shutil.copytree(runs / "digits-opl" / "seed-0", many / str(seed) / "digits-opl" / "seed-0")
    verifying, total = _measure(["report", str(many)], scratch / "page.prof", tally)
    tally.notes.append(f"verification takes {verifying:.2f} of {total:.2f} s of a page of {count} runs")
    tally.add("right" if verifying <= 0.1 else "lost", f"{verifying:.2f} s of a page of {count} runs")


def _measure(argv: list[str], file: Path, tally: Tally) -> tuple[float, float]:
    """Seconds inside what verifies, and in total."""

    def call() -> None:
        from opl.experiments.cli import main

        profile = cProfile.Profile()
        assert profile.runcall(main, argv) == 0
        profile.dump_stats(file)

    ended = run(call=call, limit=600.0)
    if ended.code:
        tally.add(ended.fault or "lost", f"opl {argv[0]}", ended)
        return 0.0, 1.0
    stats = pstats.Stats(str(file))
    verifying = sum(
        row[2] for (path, _, name), row in stats.stats.items() if any(p in f"{path} {name}" for p in VERIFYING)
    )
    return verifying, stats.total_tt  # type: ignore[attr-defined]
