"""Speed and memory of the variants of OPL beside OPL, forward and backward, at several batch sizes, in one run.

Losses take turns, call by call, in memory that is kept; medians are reported, and their ratios to OPL. Memory is the
peak above what is there before the call, each in a fresh process, in feature matrices. `balanced` includes the gradient
of cross-entropy at the features, in closed form.
"""

import sys
from collections.abc import Callable
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn

from ...losses import OrthogonalProjectionLoss
from ...schedules import Ramp
from ..allocator import keep_freed_memory
from ..methods.variants import (
    CenteredProjectionLoss,
    GradientBalance,
    LogRatioLoss,
    PrototypeProjectionLoss,
    entropy_gradient,
)
from . import Options
from .loss import Case, batch_of, describe, progress
from .memory import measure_peak, run_in_child
from .timing import take_turns

DIM, CLASSES = 512, 100
CASES = [Case(rows, DIM, CLASSES, False) for rows in (128, 512, 2048, 8192)]

Call = Callable[[Tensor, Tensor], Tensor]


def measure(options: Options) -> dict[str, Any]:
    """Milliseconds and peak memory of each loss, by batch size."""
    rows = []
    keep_freed_memory()
    for case in progress(CASES, "variants", options.quiet):
        row = {**describe(case), "ms": _times(case, options.seconds)}
        if options.memory and sys.platform == "linux":
            row["memory"] = {name: run_in_child(f"{name} at B={case.rows}", _peak, case, name) for name in row["ms"]}
        rows.append(row)
    return {"torch": torch.__version__, "threads": torch.get_num_threads(), "rows": rows}


def losses(case: Case) -> dict[str, Call]:
    """Each loss as a function of features and labels."""
    modules: dict[str, nn.Module] = {
        "opl": OrthogonalProjectionLoss(),
        "auto": OrthogonalProjectionLoss(gamma="auto"),
        "log-ratio": LogRatioLoss(gamma=1.0),
        "ramp": OrthogonalProjectionLoss(gamma=Ramp()),
        "centered": CenteredProjectionLoss(case.dim),
        "prototypes": PrototypeProjectionLoss(case.dim, num_classes=case.classes),
    }
    plain, balance, head = OrthogonalProjectionLoss(), GradientBalance(), torch.randn(case.classes, case.dim)

    def balanced(features: Tensor, labels: Tensor) -> Tensor:
        slope = entropy_gradient(features.detach() @ head.T, labels, head)
        value: Tensor = balance(plain(features, labels), features, slope)
        return value

    return {**modules, "balanced": balanced}


def _times(case: Case, seconds: float) -> dict[str, float]:
    features, labels = batch_of(case)

    def drop_gradient() -> None:
        features.grad = None

    def turn(call: Call) -> Callable[[], object]:
        return lambda: torch.autograd.backward(call(features, labels))

    times = take_turns({name: turn(call) for name, call in losses(case).items()}, seconds, reset=drop_gradient)
    return {name: 1e3 * median(values) for name, values in times.items()}


def _peak(case: Case, name: str) -> float:
    torch.autograd.backward(losses(case)[name](*batch_of(case._replace(rows=64))))  # everything is loaded
    call, (features, labels) = losses(case)[name], batch_of(case)
    _, peak = measure_peak(lambda: torch.autograd.backward(call(features, labels)))
    return peak / (case.rows * case.dim * 4)


def show(result: dict[str, Any]) -> None:
    """Print a line for each loss and batch size."""
    print(f"forward + backward, medians, torch {result['torch']}, {result['threads']} threads")
    print(f"{'B':>6} {'D':>5} {'C':>5}  {'loss':<12}{'ms':>9}{'of opl':>9}{'feature matrices':>18}")
    for row in result["rows"]:
        for name, value in row["ms"].items():
            peak = f"{row['memory'][name]:.1f}" if "memory" in row else ""
            ratio = value / row["ms"]["opl"]
            print(f"{row['B']:>6} {row['D']:>5} {row['C']:>5}  {name:<12}{value:>9.2f}{ratio:>8.2f}x{peak:>18}")
