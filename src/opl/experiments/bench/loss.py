"""Speed and memory of the loss, forward and backward, against the textbook version: ratios from one run.

The versions take turns, call by call, so that whatever else the machine does meets all of them; medians are reported.
The floor is `F.normalize`, forward and backward: one pass over the features that any version of the loss must make.
Memory is the peak above what is there before the call, each in a fresh process.
"""

import json
import multiprocessing
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Literal, NamedTuple

import tyro

from ...errors import OptionError
from ..cli import bench as bench_parts


class Case(NamedTuple):
    """A batch of B features of D numbers in C classes; `signed` or not (pooled ReLU)."""

    rows: int
    dim: int
    classes: int
    signed: bool


SPEED = [
    Case(rows, dim, classes, signed)
    for signed in (False, True)
    for rows, dim, classes in (
        (128, 64, 100),
        (128, 512, 1000),
        (256, 512, 100),
        (1024, 2048, 1000),
        (8192, 512, 1000),
    )
]
MEMORY = [Case(65536, 512, 1000, False), Case(16384, 512, 1000, True), Case(16384, 512, 1000, False)]


@dataclass(frozen=True)
class Bench:
    """Time and peak memory of the loss against the textbook B x B version, in one run."""

    what: tyro.conf.Positional[Literal["loss", "losses", "train", "episodes", "attack"]] = "loss"
    """OPL against its textbook version; all losses of table 1 as shares of a training step; the training loop
    against a bare and a conventional one; the classifier of few-shot episodes against scikit-learn's; or a step of
    adversarial training against the passes that it needs."""
    seconds: float = 4.0
    """Time spent on each case, at least; every version runs at least three times."""
    threads: int = 0
    """Threads of torch; 0 keeps its own choice."""
    memory: bool = True
    """Measure memory too (Linux; takes a minute)."""
    json: bool = False
    """Print JSON instead of tables."""

    def run(self) -> None:
        """Measure, and print."""
        import torch

        if self.threads:
            torch.set_num_threads(self.threads)
        if self.what != "loss":
            bench_parts.PARTS[self.what](self.json, self.memory)
            return
        textbook()  # fail before measuring, not after
        speed = [_speed(case, self.seconds) for case in _progress(SPEED, "speed", self.json)]
        peaks: list[dict[str, Any]] = []
        if self.memory and sys.platform == "linux":
            peaks = [_memory(case) for case in _progress(MEMORY, "memory", self.json)]
        result = {"torch": torch.__version__, "threads": torch.get_num_threads(), "speed": speed, "memory": peaks}
        if self.json:
            print(json.dumps(result, indent=1))
        else:
            _print_tables(result)


def textbook() -> Callable[..., Any]:
    """The textbook version, which lives in `benchmarks/` beside the source and not in the package."""
    function: Callable[..., Any] = bench_parts.benchmark("textbook").textbook
    return function


def _batch(case: Case) -> tuple[Any, Any]:
    import torch

    generator = torch.Generator().manual_seed(0)
    features = torch.randn(case.rows, case.dim, generator=generator)
    features = features if case.signed else features.relu_()
    return features.requires_grad_(), torch.randint(0, case.classes, (case.rows,), generator=generator)


def _speed(case: Case, seconds: float) -> dict[str, Any]:
    import torch
    from torch.nn import functional as F

    from ...functional import orthogonal_projection, select_algorithm

    features, labels = _batch(case)
    ones = torch.ones_like(features)
    book = textbook()
    versions: dict[str, Callable[[], object]] = {
        "textbook": lambda: torch.autograd.backward(book(features, labels)),
        "opl": lambda: torch.autograd.backward(orthogonal_projection(features, labels).loss),
        "floor": lambda: torch.autograd.backward(F.normalize(features, dim=1), ones),
    }
    times = _take_turns(versions, features, seconds)
    algorithm = select_algorithm(features, labels)
    milliseconds = {name: 1e3 * median(values) for name, values in times.items()}
    return {
        **_named(case),
        "algorithm": algorithm,
        "ms": milliseconds,
        "faster": milliseconds["textbook"] / milliseconds["opl"],
        "of_floor": milliseconds["opl"] / milliseconds["floor"],
    }


def _take_turns(versions: dict[str, Callable[[], object]], features: Any, seconds: float) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {name: [] for name in versions}
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times["opl"]) < 4:
        for name, call in versions.items():
            features.grad = None
            start = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - start)
    return {name: values[1:] for name, values in times.items()}  # the first turn warms up


def _named(case: Case) -> dict[str, Any]:
    """A case by the letters of the paper."""
    return {"B": case.rows, "D": case.dim, "C": case.classes, "features": "signed" if case.signed else "ReLU"}


def _memory(case: Case) -> dict[str, Any]:
    """Peak bytes above the start, in units of the feature matrix; the textbook's is scaled up where it cannot fit."""
    matrix = case.rows * case.dim * 4
    ours = _peak_in_child(case, "opl")
    rows = case.rows
    while rows * rows * 4 * 8 > 0.7 * _free_bytes():  # the textbook version holds about eight B x B matrices
        rows //= 2
    measured = _peak_in_child(case._replace(rows=rows), "textbook")
    scale = (case.rows / rows) ** 2
    return {
        **_named(case),
        "matrix_bytes": matrix,
        "opl": ours / matrix,
        "textbook": measured * scale / matrix,
        "textbook_measured_at_B": rows,
    }


def _free_bytes() -> int:
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _peak_in_child(case: Case, version: str) -> int:
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=_send_peak, args=(case, version, sender))
    child.start()
    sender.close()
    try:
        return int(receiver.recv())
    except EOFError:
        raise OptionError(f"the process that measured {version} at B={case.rows} died: free some memory.") from None
    finally:
        child.join()


def _send_peak(case: Case, version: str, sender: Any) -> None:
    from ...functional import orthogonal_projection

    book = textbook()
    call = (lambda f, y: orthogonal_projection(f, y).loss) if version == "opl" else book
    call(*_batch(case._replace(rows=64))).backward()  # everything is loaded
    features, labels = _batch(case)
    before = _status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts again from here
    call(features, labels).backward()
    sender.send(_status("VmHWM") - before)


def _status(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))


def _progress(cases: list[Case], what: str, quiet: bool) -> Any:
    from rich.console import Console
    from rich.progress import track

    return track(cases, description=what, console=Console(stderr=True), transient=True, disable=quiet)


def _print_tables(result: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console()
    table = Table(title=f"forward + backward in ms, medians, torch {result['torch']}, {result['threads']} threads")
    for name in ("B", "D", "C", "features", "algorithm", "textbook", "opl", "faster", "of floor"):
        table.add_column(name, justify="left" if name in ("features", "algorithm") else "right", no_wrap=True)
    for row in result["speed"]:
        numbers = [f"{row['ms']['textbook']:.2f}", f"{row['ms']['opl']:.2f}"]
        shape = [str(row[name]) for name in ("B", "D", "C", "features", "algorithm")]
        table.add_row(*shape, *numbers, f"{row['faster']:.1f}x", f"{row['of_floor']:.2f}x")
    console.print(table)
    if not result["memory"]:
        return
    table = Table(title="peak memory above the start, in feature matrices")
    for name in ("B", "D", "C", "features", "matrix", "textbook", "opl"):
        table.add_column(name, justify="left" if name == "features" else "right")
    for row in result["memory"]:
        at = row["textbook_measured_at_B"]
        note = "" if at == row["B"] else f" (from B={at})"
        shape = [str(row[name]) for name in ("B", "D", "C", "features")]
        size = f"{row['matrix_bytes'] / 2**20:.0f} MiB"
        table.add_row(*shape, size, f"{row['textbook']:.1f}{note}", f"{row['opl']:.1f}")
    console.print(table)
