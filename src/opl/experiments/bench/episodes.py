"""Few-shot episodes: our logistic regression of all at once against a loop of scikit-learn's on one BLAS thread.

All versions take turns, 300 episodes at a time, on the same features; the time is that of the classifier alone. Memory
is the peak above what is there before the first episode, in a fresh process that indexes a bank of features into one
buffer, as a caller with many episodes should.
"""

import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from ..evaluation.classifiers import logistic, logistic_fit, sklearn_logistic
from . import Options
from .episode_features import CHUNK, WAY, Bank, Buffer, Case, make_bank
from .memory import measure_peak, run_in_child

EPISODES = 3_000
CASES = [Case(1, 5), Case(5, 1), Case(5, 5)]
MEMORY = [(Case(1, 5), 3_000), (Case(1, 5), 30_000), (Case(5, 5), 3_000)]


def measure(options: Options) -> dict[str, Any]:
    """Seconds, accuracies and iterations of each case, and peak memory."""
    from rich.console import Console

    with Console(stderr=True).status("3,000 episodes of three kinds, in turns (about two minutes) ..."):
        features = make_bank()
        cases = [compare_classifiers(case, features) for case in CASES]
        wanted = MEMORY if options.memory and sys.platform == "linux" else []
        peaks = [_peak_in_child(case, count) for case, count in wanted]
    return {"episodes": EPISODES, "threads": torch.get_num_threads(), "cases": cases, "memory": peaks}


def compare_classifiers(case: Case, features: Bank, episodes: int = EPISODES) -> dict[str, Any]:
    """Seconds and accuracy of ours, of ours on one thread, and of scikit-learn's."""
    buffer = Buffer(features, case)
    threads = torch.get_num_threads()
    versions: dict[str, Callable[..., Tensor]] = {
        "ours": _with_threads(threads),
        "ours_1_thread": _with_threads(1),
        "scikit_learn": sklearn_logistic,
    }
    seconds = dict.fromkeys(versions, 0.0)
    right = dict.fromkeys(versions, 0.0)
    same, iterations = 0.0, []
    for version in versions.values():
        version(*_first_episodes(buffer), WAY)  # warms up
    for seed in range(chunks := max(1, episodes // CHUNK)):
        support, labels, queries = buffer.fill(seed)
        answers = {}
        for name, version in versions.items():
            start = time.perf_counter()
            answers[name] = version(support, labels, queries, WAY)
            seconds[name] += time.perf_counter() - start
            right[name] += _share_equal(answers[name], buffer.answers) / chunks
        same += _share_equal(answers["ours"], answers["scikit_learn"]) / chunks
        iterations.append(logistic_fit(support, labels, WAY).iterations.double())
    counts = torch.cat(iterations)
    return {
        "case": case.name,
        "rows": len(buffer.labels),
        "seconds": seconds,
        "faster": seconds["scikit_learn"] / seconds["ours"],
        "faster_1_thread": seconds["scikit_learn"] / seconds["ours_1_thread"],
        "accuracy": {name: 100 * value for name, value in right.items()},
        "difference": 100 * (right["ours"] - right["scikit_learn"]),
        "equal": 100 * same,
        "iterations": {"mean": counts.mean().item(), "most": int(counts.max())},
    }


def _with_threads(threads: int) -> Callable[..., Tensor]:
    """Our classifier on so many threads."""

    def version(*arguments: Any) -> Tensor:
        before = torch.get_num_threads()
        torch.set_num_threads(threads)
        try:
            return logistic(*arguments)
        finally:
            torch.set_num_threads(before)

    return version


def _first_episodes(buffer: Buffer, count: int = 20) -> tuple[Tensor, Tensor, Tensor]:
    """A few episodes, for a call that loads everything."""
    support, labels, queries = buffer.fill(-1)
    return support[:count], labels, queries[:count]


def _share_equal(one: Tensor, other: Tensor) -> float:
    return (one == other).double().mean().item()


def _peak_in_child(case: Case, episodes: int) -> dict[str, Any]:
    numbers = run_in_child(f"{episodes} episodes, {case.name}", _peak, case, episodes)
    return {"case": case.name, "episodes": episodes, **numbers}


def _peak(case: Case, episodes: int) -> dict[str, float]:
    buffer = Buffer(make_bank(), case)
    logistic(*_first_episodes(buffer), WAY)
    start = time.perf_counter()
    right, peak = measure_peak(lambda: list(_accuracies(buffer, episodes)))
    seconds = time.perf_counter() - start
    return {"bytes": peak, "seconds": seconds, "accuracy": 100 * sum(right) / len(right)}


def _accuracies(buffer: Buffer, episodes: int) -> Iterator[float]:
    for seed in range(episodes // CHUNK):
        yield _share_equal(logistic(*buffer.fill(seed), WAY), buffer.answers)


def show(result: dict[str, Any]) -> None:
    """Print a line for each case."""
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
