"""Few-shot episodes: our logistic regression of all at once against a loop of scikit-learn's on one BLAS thread.

Features are synthetic, but as a network's are: 640 numbers from 0 up, of length 1, 20 classes that overlap; copies of a
support image are jittered. Episodes are 5-way with 15 queries a class. All versions take turns, 300 episodes at a time,
on the same features; the time is that of the classifier alone. Memory is the peak above what is there before the first
episode, in a fresh process that indexes a bank of features into one buffer, as a caller with many episodes should.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from opl.experiments.evaluation.few_shot.classifiers import logistic, logistic_fit, sklearn_logistic

CLASSES, IMAGES, VIEWS, DIM, LATENT = 20, 200, 5, 640, 64
WAY, QUERIES, CHUNK = 5, 15, 300
NOISE, JITTER = 1.9, 0.9  # 1-shot accuracy is about 65 %


class Case(NamedTuple):
    shots: int
    copies: int

    @property
    def name(self) -> str:
        return f"{self.shots}-shot, {self.copies} cop{'y' if self.copies == 1 else 'ies'}"


CASES = [Case(1, 5), Case(5, 1), Case(5, 5)]
MEMORY = [(Case(1, 5), 3_000), (Case(1, 5), 30_000), (Case(5, 5), 3_000)]


class Bank(NamedTuple):
    """Features of all images, (images, D), and of their jittered views, (images * views, D); a class at a time."""

    plain: Tensor
    views: Tensor


def bank(seed: int = 0) -> Bank:
    generator = torch.Generator().manual_seed(seed)

    def noise(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    basis, common = noise(LATENT, DIM) / LATENT**0.5, noise(DIM)
    images = noise(CLASSES, 1, LATENT) + NOISE * noise(CLASSES, IMAGES, LATENT)
    views = images[:, :, None] + JITTER * noise(CLASSES, IMAGES, VIEWS, LATENT)
    made = (F.normalize((x @ basis + common).relu_(), dim=-1).view(-1, DIM) for x in (images, views))
    return Bank(*made)


class Buffer:
    """Where the features of one chunk of episodes are put, again and again."""

    def __init__(self, features: Bank, case: Case, count: int = CHUNK) -> None:
        self.features, self.case, self.count = features, case, count
        self.support = torch.empty(count, WAY * case.shots * case.copies, DIM)
        self.queries = torch.empty(count, WAY * QUERIES, DIM)
        self.labels = torch.arange(WAY).repeat_interleave(case.shots * case.copies)
        self.answers = torch.arange(WAY).repeat_interleave(QUERIES)

    def fill(self, seed: int) -> tuple[Tensor, Tensor, Tensor]:
        """Support, labels and queries of other episodes."""
        generator = torch.Generator().manual_seed(seed)
        classes = torch.rand(self.count, CLASSES, generator=generator).argsort(1)[:, :WAY, None]
        order = torch.rand(self.count, WAY, IMAGES, generator=generator).argsort(2)[:, :, : self.case.shots + QUERIES]
        images = classes * IMAGES + order
        shown, asked = images.split([self.case.shots, QUERIES], dim=2)
        copies = shown[..., None] * VIEWS + torch.arange(self.case.copies)
        torch.index_select(self.features.views, 0, copies.flatten(), out=self.support.view(-1, DIM))
        torch.index_select(self.features.plain, 0, asked.flatten(), out=self.queries.view(-1, DIM))
        return self.support, self.labels, self.queries


def measure(episodes: int = 3000, memory: bool = True) -> dict:
    """Seconds, accuracies and iterations of each case, and peak memory, as plain numbers."""
    features = bank()
    cases = [compare(case, features, episodes) for case in CASES]
    peaks = [peak(case, count) for case, count in MEMORY] if memory and sys.platform == "linux" else []
    return {"episodes": episodes, "threads": torch.get_num_threads(), "cases": cases, "memory": peaks}


def compare(case: Case, features: Bank, episodes: int) -> dict:
    buffer = Buffer(features, case)
    threads = torch.get_num_threads()
    versions = {"ours": _with_threads(threads), "ours_1_thread": _with_threads(1), "scikit_learn": sklearn_logistic}
    seconds = dict.fromkeys(versions, 0.0)
    right = dict.fromkeys(versions, 0.0)
    same, iterations = 0.0, []
    for version in versions.values():
        version(*(x[:20] if x.ndim == 3 else x for x in buffer.fill(-1)), WAY)  # warms up
    for seed in range(chunks := max(1, episodes // CHUNK)):
        given = buffer.fill(seed)
        found = {}
        for name, version in versions.items():
            start = time.perf_counter()
            found[name] = version(*given, WAY)
            seconds[name] += time.perf_counter() - start
            right[name] += (found[name] == buffer.answers).double().mean().item() / chunks
        same += (found["ours"] == found["scikit_learn"]).double().mean().item() / chunks
        iterations.append(logistic_fit(*given[:2], WAY).iterations.double())
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
    def version(*given: object) -> Tensor:
        before = torch.get_num_threads()
        torch.set_num_threads(threads)
        try:
            return logistic(*given)
        finally:
            torch.set_num_threads(before)

    return version


def peak(case: Case, episodes: int) -> dict:
    """Peak memory of a run of so many episodes, from a process of its own."""
    words = [sys.executable, __file__, str(case.shots), str(case.copies), str(episodes)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    return {"case": case.name, "episodes": episodes, **json.loads(done.stdout)}


def _run(case: Case, episodes: int) -> dict:
    buffer = Buffer(bank(), case)
    logistic(*(x[:20] if x.ndim == 3 else x for x in buffer.fill(-1)), WAY)  # everything is loaded
    before = _status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts again from here
    start = time.perf_counter()
    right = list(_accuracies(buffer, episodes))
    seconds = time.perf_counter() - start
    return {"bytes": _status("VmHWM") - before, "seconds": seconds, "accuracy": 100 * sum(right) / len(right)}


def _accuracies(buffer: Buffer, episodes: int) -> Iterator[float]:
    for seed in range(episodes // CHUNK):
        found = logistic(*buffer.fill(seed), WAY)
        yield (found == buffer.answers).double().mean().item()


def _status(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))


if __name__ == "__main__":
    shots, copies, episodes = map(int, sys.argv[1:])
    print(json.dumps(_run(Case(shots, copies), episodes)))
