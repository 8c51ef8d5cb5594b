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

from .errors import OptionError


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
        if self.what == "train":
            _bench_training(self.json)
            return
        if self.what == "losses":
            _bench_losses(self.json)
            return
        if self.what == "episodes":
            _bench_episodes(self.json, self.memory)
            return
        if self.what == "attack":
            _bench_attack(self.json)
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
    function: Callable[..., Any] = _benchmark("textbook").textbook
    return function


def _benchmark(name: str) -> Any:
    """A module of `benchmarks/`, which the source tree has and the installed package does not."""
    import importlib.util

    path = Path(__file__).parents[2] / "benchmarks" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path) if path.exists() else None
    if spec is None or spec.loader is None:
        raise OptionError(
            f"opl bench needs benchmarks/{name}.py of the source tree, which is not here: clone the repository, run "
            "`make setup` in it, and call opl bench from its environment."
        )
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # loader workers look it up by name
    spec.loader.exec_module(module)
    return module


def _bench_training(as_json: bool) -> None:
    """Images a second of the loops, and what the data costs."""
    from rich.console import Console

    training = _benchmark("training")
    with Console(stderr=True).status("training loops take turns (about three minutes) ..."):
        result = {**training.measure(), **training.measure_data()}
    if as_json:
        print(json.dumps(result, indent=1))
        return
    for name, value in result.pop("images_per_second").items():
        print(f"{name:<28}{value:>10.1f} images/s")
    for name, value in result.items():
        print(f"{name.replace('_', ' '):<28}{value:>10.4f}")


def _bench_losses(as_json: bool) -> None:
    """What each loss costs beside a ResNet-56 step."""
    import torch
    from rich.console import Console

    with Console(stderr=True).status("losses and training steps take turns (about half a minute) ..."):
        result = _benchmark("losses").measure()
    if as_json:
        print(json.dumps(result, indent=1))
        return
    threads = torch.get_num_threads()
    print(
        f"a ResNet-56 step at B=128: {result['step_ms']:.0f} ms, {threads} threads; forward and backward of each loss:"
    )
    for name, row in result["losses"].items():
        print(f"{name:<14}{row['ms']:>8.2f} ms{100 * row['share']:>8.2f} %")


def _bench_episodes(as_json: bool, memory: bool) -> None:
    """Logistic regression of 3,000 few-shot episodes against a loop of scikit-learn's."""
    from rich.console import Console

    with Console(stderr=True).status("3,000 episodes of three kinds, in turns (about two minutes) ..."):
        result = _benchmark("episodes").measure(memory=memory)
    if as_json:
        print(json.dumps(result, indent=1))
        return
    print(
        f"{result['episodes']} episodes, 5-way, 75 queries; seconds with {result['threads']} threads, 1 thread, and of"
    )
    print("scikit-learn on one; accuracy of ours, of scikit-learn's, their difference; equal predictions; iterations:")
    for row in result["cases"]:
        ours, alone, theirs = row["seconds"].values()
        right, _, reference = row["accuracy"].values()
        print(
            f"{row['case']:<17}{row['rows']:>4} rows {ours:>6.2f} s {alone:>6.2f} s {theirs:>7.2f} s"
            f" {row['faster']:>6.1f}x {row['faster_1_thread']:>6.1f}x {right:>7.3f} {reference:>7.3f}"
            f" {row['difference']:>+7.3f} {row['equal']:>7.2f} %"
            f" {row['iterations']['mean']:>5.1f} (at most {row['iterations']['most']})"
        )
    for row in result["memory"]:
        print(
            f"{row['case']:<17}{row['episodes']:>6} episodes: peak memory {row['bytes'] / 2**20:>5.0f} MiB above the "
            f"start, {row['seconds']:.1f} s with the making of episodes"
        )


def _bench_attack(as_json: bool) -> None:
    """A PGD-10 step against eleven plain passes, and against the least that it needs."""
    from rich.console import Console

    with Console(stderr=True).status("steps and passes take turns (about half a minute) ..."):
        result = _benchmark("adversarial").measure()
    if as_json:
        print(json.dumps(result, indent=1))
        return
    ms = result["ms"]
    print(f"{result['network']}, {result['threads']} threads, medians of {result['turns']} turns:")
    print(f"a PGD-10 step                                    {ms['step']:>8.1f} ms")
    print(f"11 forward and backward passes                   {ms['plain']:>8.1f} ms {result['of_plain']:>7.2f}x")
    print(f"10 passes to the images alone, 1 to all weights  {ms['floor']:>8.1f} ms {result['of_floor']:>7.2f}x")


def _batch(case: Case) -> tuple[Any, Any]:
    import torch

    generator = torch.Generator().manual_seed(0)
    features = torch.randn(case.rows, case.dim, generator=generator)
    features = features if case.signed else features.relu_()
    return features.requires_grad_(), torch.randint(0, case.classes, (case.rows,), generator=generator)


def _speed(case: Case, seconds: float) -> dict[str, Any]:
    import torch
    from torch.nn import functional as F

    from .functional import orthogonal_projection, which_way

    features, labels = _batch(case)
    ones = torch.ones_like(features)
    book = textbook()
    versions: dict[str, Callable[[], object]] = {
        "textbook": lambda: torch.autograd.backward(book(features, labels)),
        "opl": lambda: torch.autograd.backward(orthogonal_projection(features, labels).loss),
        "floor": lambda: torch.autograd.backward(F.normalize(features, dim=1), ones),
    }
    times = _take_turns(versions, features, seconds)
    way = which_way(features, labels)
    milliseconds = {name: 1e3 * median(values) for name, values in times.items()}
    return {
        **_named(case),
        "way": way,
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
    from .functional import orthogonal_projection

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
    for name in ("B", "D", "C", "features", "way", "textbook", "opl", "faster", "of floor"):
        table.add_column(name, justify="left" if name in ("features", "way") else "right", no_wrap=True)
    for row in result["speed"]:
        numbers = [f"{row['ms']['textbook']:.2f}", f"{row['ms']['opl']:.2f}"]
        shape = [str(row[name]) for name in ("B", "D", "C", "features", "way")]
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
