"""Speed and memory of the loss, forward and backward, against the textbook version: ratios from one run.

The versions take turns, call by call; medians are reported. The floor is `F.normalize`, forward and backward: one pass
over the features that any version of the loss must make. Memory is the peak above what is there before the call, each
in a fresh process.
"""

import os
import sys
from collections.abc import Callable, Iterable
from statistics import median
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from ...functional import orthogonal_projection, select_algorithm
from . import Options
from .memory import measure_peak, run_in_child
from .textbook import textbook
from .timing import take_turns


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


def measure(options: Options) -> dict[str, Any]:
    """Milliseconds and peak memory of each case."""
    speed = [_speed(case, options.seconds) for case in progress(SPEED, "speed", options.quiet)]
    peaks: list[dict[str, Any]] = []
    if options.memory and sys.platform == "linux":
        peaks = [_memory(case) for case in progress(MEMORY, "memory", options.quiet)]
    return {"torch": torch.__version__, "threads": torch.get_num_threads(), "speed": speed, "memory": peaks}


def batch_of(case: Case) -> tuple[Tensor, Tensor]:
    """The features and labels of a case."""
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(case.rows, case.dim, generator=generator)
    features = features if case.signed else features.relu_()
    return features.requires_grad_(), torch.randint(0, case.classes, (case.rows,), generator=generator)


def _projection(features: Tensor, labels: Tensor) -> Tensor:
    return orthogonal_projection(features, labels).loss


VERSIONS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {"textbook": textbook, "opl": _projection}


def _speed(case: Case, seconds: float) -> dict[str, Any]:
    features, labels = batch_of(case)
    ones = torch.ones_like(features)
    versions: dict[str, Callable[[], object]] = {
        "textbook": lambda: torch.autograd.backward(textbook(features, labels)),
        "opl": lambda: torch.autograd.backward(orthogonal_projection(features, labels).loss),
        "floor": lambda: torch.autograd.backward(F.normalize(features, dim=1), ones),
    }

    def drop_gradient() -> None:
        features.grad = None

    times = take_turns(versions, seconds, reset=drop_gradient)
    milliseconds = {name: 1e3 * median(values) for name, values in times.items()}
    return {
        **describe(case),
        "algorithm": select_algorithm(features, labels),
        "ms": milliseconds,
        "faster": milliseconds["textbook"] / milliseconds["opl"],
        "of_floor": milliseconds["opl"] / milliseconds["floor"],
    }


def describe(case: Case) -> dict[str, Any]:
    """A case by the letters of the paper."""
    return {"B": case.rows, "D": case.dim, "C": case.classes, "features": "signed" if case.signed else "ReLU"}


def _memory(case: Case) -> dict[str, Any]:
    """Peak bytes above the start, in units of the feature matrix; the textbook's is scaled up where it cannot fit."""
    matrix = case.rows * case.dim * 4
    ours = _peak_in_child(case, "opl")
    rows = case.rows
    while rows * rows * 4 * 8 > 0.7 * _free_bytes():  # the textbook version holds about eight B x B matrices
        rows //= 2
    smaller = _peak_in_child(case._replace(rows=rows), "textbook")
    scale = (case.rows / rows) ** 2
    return {
        **describe(case),
        "matrix_bytes": matrix,
        "opl": ours / matrix,
        "textbook": smaller * scale / matrix,
        "textbook_measured_at_B": rows,
    }


def _free_bytes() -> int:
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _peak_in_child(case: Case, version: str) -> int:
    return run_in_child(f"{version} at B={case.rows}", _peak, case, version)


def _peak(case: Case, version: str) -> int:
    call = VERSIONS[version]
    torch.autograd.backward(call(*batch_of(case._replace(rows=64))))  # everything is loaded
    features, labels = batch_of(case)
    _, peak = measure_peak(lambda: torch.autograd.backward(call(features, labels)))
    return peak


def progress(cases: list[Case], what: str, quiet: bool) -> Iterable[Case]:
    """The cases, with a progress bar unless that is unwanted."""
    from rich.console import Console
    from rich.progress import track

    return track(cases, description=what, console=Console(stderr=True), transient=True, disable=quiet)


def show(result: dict[str, Any]) -> None:
    """Print a table of times and, where it was measured, one of memory."""
    from rich.console import Console

    console = Console()
    console.print(_speed_table(result))
    if result["memory"]:
        console.print(_memory_table(result["memory"]))


def _speed_table(result: dict[str, Any]) -> Any:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    title = f"forward + backward in ms, medians, torch {result['torch']}, {result['threads']} threads"
    table = Table(title=title, box=SIMPLE_HEAD, padding=(0, 0), pad_edge=False)  # fits into 80 characters
    for name in ("B", "D", "C", "features", "algorithm", "textbook", "opl", "faster", "of floor"):
        table.add_column(name, justify="left" if name in ("features", "algorithm") else "right", no_wrap=True)
    for row in result["speed"]:
        numbers = [f"{row['ms']['textbook']:.2f}", f"{row['ms']['opl']:.2f}"]
        shape = [str(row[name]) for name in ("B", "D", "C", "features", "algorithm")]
        table.add_row(*shape, *numbers, f"{row['faster']:.1f}x", f"{row['of_floor']:.2f}x")
    return table


def _memory_table(rows: list[dict[str, Any]]) -> Any:
    from rich.table import Table

    table = Table(title="peak memory above the start, in feature matrices")
    for name in ("B", "D", "C", "features", "matrix", "textbook", "opl"):
        table.add_column(name, justify="left" if name == "features" else "right")
    for row in rows:
        at = row["textbook_measured_at_B"]
        note = "" if at == row["B"] else f" (from B={at})"
        shape = [str(row[name]) for name in ("B", "D", "C", "features")]
        size = f"{row['matrix_bytes'] / 2**20:.0f} MiB"
        table.add_row(*shape, size, f"{row['textbook']:.1f}{note}", f"{row['opl']:.1f}")
    return table
