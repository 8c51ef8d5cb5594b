"""What verification costs: its share of a small training, and its seconds in a page of 200 runs.

Everything that exists only to verify is timed inside the one run: checksums, the list of sums, the locks. The limits
are 2 % of the processor time of the training, and 1 s for the page.
"""

import json
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any

from ._process import Ended, run
from ._tally import Tally, common_fault

SHARE, SECONDS = 0.02, 1.0
RUNS = 200
TRAIN = ("digits-opl", "--scale", "small")


class _Clock:
    """Seconds of processor and of wall time inside what is timed; nested calls count once."""

    def __init__(self) -> None:
        self.processor = self.wall = 0.0
        self.depth = 0

    @contextmanager
    def running(self) -> Iterator[None]:
        start = (time.process_time(), time.perf_counter())
        self.depth += 1
        try:
            yield
        finally:
            self.depth -= 1
            if not self.depth:
                self.processor += time.process_time() - start[0]
                self.wall += time.perf_counter() - start[1]

    def timed(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The same function, timed."""

        @wraps(function)
        def call(*args: Any, **options: Any) -> Any:
            with self.running():
                return function(*args, **options)

        return call


def cost(scratch: Path, tally: Tally, share: float) -> None:
    """Measure both."""
    runs = scratch / "runs"
    words = [*TRAIN, "--epochs", "5"] if share < 0.1 else list(TRAIN)
    file = scratch / "cost.json"
    ended = run([], call=_command(["train", *words, "--out", str(runs)], file), limit=600.0)
    found = _found(ended, file, "a small training", tally)
    if found is not None:
        part = found["processor"] / found["whole processor"]
        tally.notes.append(
            f"verification takes {part:.2%} of the processor time of opl train {' '.join(words)} "
            f"({found['processor']:.3f} of {found['whole processor']:.2f} s), and {found['wall']:.3f} of "
            f"{found['whole wall']:.2f} s by the clock; the limit is {SHARE:.0%} of the processor time"
        )
        tally.add("right" if part <= SHARE or share < 0.1 else "lost", f"the share of a small training: {part:.2%}")
    count = 10 if share < 0.1 else RUNS
    run([], call=lambda: _copies(runs / "digits-opl" / "seed-0", scratch / "many", count), limit=600.0)
    ended = run([], call=_command(["report", str(scratch / "many")], file), limit=600.0)
    found = _found(ended, file, "a page", tally)
    if found is not None:
        tally.notes.append(
            f"verification takes {found['wall']:.2f} of the {found['whole wall']:.2f} s of a page of {count} runs "
            f"({found['processor']:.2f} s of processor time); the limit is {SECONDS:g} s of processor time"
        )
        tally.add("right" if found["processor"] <= SECONDS else "lost", f"a page: {found['processor']:.2f} s")


def _found(ended: Ended, file: Path, what: str, tally: Tally) -> dict[str, float] | None:
    if ended.code or common_fault(ended):
        tally.add(common_fault(ended) or "lost", what, ended)
        return None
    content: dict[str, float] = json.loads(file.read_text())
    return content


def _command(words: list[str], file: Path) -> Callable[[], None]:
    """An `opl` command whose verification is timed, with the times in a file."""

    def call() -> None:
        from opl.experiments.cli import main

        clock = _Clock()
        _watch(clock)
        start = (time.process_time(), time.perf_counter())
        code = main(words)
        whole = {"whole processor": time.process_time() - start[0], "whole wall": time.perf_counter() - start[1]}
        file.write_text(json.dumps({"processor": clock.processor, "wall": clock.wall, **whole}))
        assert code == 0, f"exit {code}"

    return call


def _watch(clock: _Clock) -> None:
    """Time everything that is there to verify."""
    import hashlib

    from opl.experiments.run_folder import checkpoints, ledger, lock, metrics

    class Hashing:
        """`hashlib`, timed; small and large data alike are hashed in one call."""

        sha256 = staticmethod(clock.timed(hashlib.sha256))

    for module in (ledger, checkpoints):
        module.hashlib = Hashing
    for name in ("sums", "_store", "faults", "finish"):
        setattr(ledger.Ledger, name, clock.timed(getattr(ledger.Ledger, name)))
    for name in ("__enter__", "__exit__"):
        setattr(lock.FileLock, name, clock.timed(getattr(lock.FileLock, name)))
    metrics._check = clock.timed(metrics._check)
    write = checkpoints.write_whole
    timed = clock.timed(write)
    checkpoints.write_whole = lambda file, data: (timed if file.suffix == ".sha256" else write)(file, data)


def _copies(run_folder: Path, folder: Path, count: int) -> None:
    """The same run with many seeds."""
    from opl.experiments.run_folder import RunFolder

    for seed in range(count):
        place = folder / run_folder.parent.name / f"seed-{seed}"
        shutil.copytree(run_folder, place)
        about = RunFolder(place).about()
        about["recipe"]["seed"] = seed
        RunFolder(place).ledger.write_json("recipe.json", about)
