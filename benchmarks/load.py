"""Time and memory of the commands that read many runs, on a tree of synthetic finished runs.

    python benchmarks/load.py                                # 2,000 runs and one file of 10^6 metric lines
    python benchmarks/load.py --runs 200 --lines 10000       # in seconds

The runs are those of the tables at the small scale, with as many seeds as needed, written by `RunFolder` itself, so
that all checksums are right; one more run has a long `metrics.jsonl`. CPU time is the time on an idle
machine; wall time and peak memory are measured per process. The last line is the cost of verifying checksums for a page
of 200 runs.
"""

import argparse
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

LONG = "digits-opl"  # the recipe of the run with the long file
ABOUT = {
    "versions": {"opl": "0.1.0", "torch": "2.13.0+cpu", "python": "3.11.7"},
    "commit": "06f8644cf3",
    "machine": {"system": "Linux", "processor": "x86_64", "cores": 2, "threads": 1, "accelerator": "none"},
    "started": "2026-11-15T21:00:44Z",
}


class Cost(NamedTuple):
    """Time and memory of a command."""

    wall: float
    cpu: float
    megabytes: float
    code: int


def records(epochs: int) -> Iterator[dict[str, Any]]:
    """Return lines of `metrics.jsonl` as training writes them."""
    for epoch in range(epochs):
        way = 1 - math.exp(-4 * epoch / epochs)
        yield {
            "epoch": epoch,
            "train/loss": 3.2 - 1.9 * way + 0.01 * math.sin(epoch),
            "val/top1": 55 * way + 0.1 * math.cos(epoch),
            "s": 0.55 + 0.32 * way,
            "d": 0.8 - 0.2 * way,
            "seconds": 16.1 + 0.001 * epoch,
            "images_per_second": 2813.7 + epoch / 7,
        }


def names() -> Iterator[tuple[str, int]]:
    """The recipes of all tables at the small scale with seed 0, then all with seed 1, and so on."""
    from opl.experiments.paper import ITEMS

    known = dict.fromkeys(row.recipe for item in ITEMS.values() for row in item.at("small"))
    for seed in count():
        for name in known:
            yield name, seed


def write_run(out: Path, name: str, seed: int, **changes: Any) -> None:
    """Write a finished run with a few random weights."""
    import torch

    from opl.experiments.paper import ITEMS, recipe
    from opl.experiments.run_folder import RunFolder
    from opl.experiments.settings import to_json

    folder = RunFolder.of(out, name, seed)
    settings = {**to_json(recipe(name, "small")), "seed": seed, **changes}
    opl = {"weight": 1.0, "gamma": 0.5, "form": "mean_abs"} if "opl" in name else None
    folder.start(settings, {"opl": opl, "baseline": {"kind": "CrossEntropy"}, **ABOUT})
    folder.write_splits({"source": "synthetic", "train": 9000, "val": list(range(1000)), "test": 2000})
    folder.restore_metrics(records(settings["epochs"]))
    metrics = dict.fromkeys(key for item in ITEMS.values() for key in item.metrics)
    numbers = {key: 50 + 5 * math.sin(place + seed + len(name)) for place, key in enumerate(metrics)}
    weights = {"weight": torch.full((64,), float(seed)), "name": torch.tensor(list(name.encode()))}
    folder.finish(weights, {**numbers, "scale": "small", "selection": "last", "seconds": 161.5})


def write_tree(out: Path, runs: int, lines: int) -> None:
    """Write runs of all tables, and one run with a long file."""
    for name, seed in islice(names(), runs):
        write_run(out, name, seed)
    if lines:
        write_run(out, LONG, 10**6, epochs=lines, scale="custom", changes=[f"epochs {lines}"])


def run(words: list[str]) -> Cost:
    """Measure a command in a separate process."""
    begun = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-m", "opl", *words], stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    cpu = used.ru_utime + used.ru_stime
    return Cost(time.perf_counter() - begun, cpu, used.ru_maxrss / 1024, process.returncode)


def page_seconds(folder: Path) -> float:
    """CPU time of reading all runs and writing their page, in this process."""
    from opl.experiments.paper import ITEMS
    from opl.experiments.report.page import write_report

    begun = time.process_time()
    write_report(folder, ITEMS)
    return time.process_time() - begun


def verification(folder: Path, times: int = 5) -> tuple[float, float]:
    """CPU time of the page with and without checksums, in turns."""
    from opl.experiments.run_folder import RunFolder
    from opl.experiments.run_folder.manifest import Manifest

    def read(manifest: Manifest, name: str) -> bytes:
        return (manifest.folder / name).read_bytes()

    usual = RunFolder.faults_of_numbers, Manifest.read
    found: dict[bool, list[float]] = {True: [], False: []}
    for turn in range(2 * times + 1):
        verified = turn % 2 == 0
        RunFolder.faults_of_numbers, Manifest.read = usual if verified else (lambda _: {}, read)
        found[verified].append(page_seconds(folder))
    RunFolder.faults_of_numbers, Manifest.read = usual
    return median(found[True][1:]), median(found[False])  # the first page imports what it needs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--lines", type=int, default=10**6)
    parser.add_argument("--out", type=Path, help="keep the tree there; one that is there is used again")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        root = given.out or Path(temporary)
        tree, small = root / "tree", root / "page"
        if not tree.exists():
            write_tree(tree, given.runs, given.lines)
        if not small.exists():
            write_tree(small, min(200, given.runs), 0)
        print(f"{given.runs:,} runs, and one of {given.lines:,} metric lines")
        commands = (
            ["report", str(tree)],
            ["results", "add", str(tree), "--to", str(root / "records")],
            ["check", str(tree)],
        )
        for words in commands:
            cost = run(words)
            print(
                f"opl {' '.join(words[:2]) if words[0] == 'results' else words[0]:<12} exit {cost.code}  "
                f"{cost.cpu:6.1f} s of CPU  {cost.wall:6.1f} s by the clock  {cost.megabytes:6.0f} MB"
            )
        verified, bare = verification(small)
        print(f"a page of 200 runs: {verified:.2f} s of CPU with checksums, {bare:.2f} s without")


if __name__ == "__main__":
    main()
