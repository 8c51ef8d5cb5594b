"""`opl bench` of everything beside the loss: what `benchmarks/` measures, printed for people or as JSON."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ...errors import OptionError


def benchmark(name: str) -> Any:
    """A module of `benchmarks/`, which the source tree has and the installed package does not."""
    import importlib.util

    path = Path(__file__).parents[4] / "benchmarks" / f"{name}.py"
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


def _bench_training(as_json: bool, memory: bool) -> None:
    """Images a second of the loops, and what the data costs."""
    from rich.console import Console

    training = benchmark("training")
    with Console(stderr=True).status("training loops take turns (about three minutes) ..."):
        result = {**training.measure(), **training.measure_data()}
    if as_json:
        print(json.dumps(result, indent=1))
        return
    for name, value in result.pop("images_per_second").items():
        print(f"{name:<28}{value:>10.1f} images/s")
    for name, value in result.items():
        print(f"{name.replace('_', ' '):<28}{value:>10.4f}")


def _bench_losses(as_json: bool, memory: bool) -> None:
    """What each loss costs beside a ResNet-56 step."""
    import torch
    from rich.console import Console

    with Console(stderr=True).status("losses and training steps take turns (about half a minute) ..."):
        result = benchmark("losses").measure()
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
        result = benchmark("episodes").measure(memory=memory)
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


def _bench_attack(as_json: bool, memory: bool) -> None:
    """A PGD-10 step against eleven plain passes, and against the least that it needs."""
    from rich.console import Console

    with Console(stderr=True).status("steps and passes take turns (about half a minute) ..."):
        result = benchmark("adversarial").measure()
    if as_json:
        print(json.dumps(result, indent=1))
        return
    ms = result["ms"]
    print(f"{result['network']}, {result['threads']} threads, medians of {result['turns']} turns:")
    print(f"a PGD-10 step                                    {ms['step']:>8.1f} ms")
    print(f"11 forward and backward passes                   {ms['plain']:>8.1f} ms {result['of_plain']:>7.2f}x")
    print(f"10 passes to the images alone, 1 to all weights  {ms['floor']:>8.1f} ms {result['of_floor']:>7.2f}x")


PARTS: dict[str, Callable[[bool, bool], None]] = {
    "losses": _bench_losses,
    "train": _bench_training,
    "episodes": _bench_episodes,
    "attack": _bench_attack,
}
