"""Few-shot episodes: our logistic regression of all episodes at once vs scikit-learn's in a loop on one BLAS thread.

Both take turns, 300 episodes at a time, on the same features; only the classifier is timed. Episodes are 5-way with 15
queries per class. Features resemble a network's: 640 non-negative numbers of length 1, from classes that overlap; the
support images are jittered copies. Peak memory of our classifier is measured in a new process.
"""

import time
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from ..evaluation.classifiers import logistic, sklearn_logistic
from ..evaluation.logistic import fit
from . import Options, Tables
from .measurement import measure_peak, run_in_child

DIM, LATENT = 640, 64
WAY, QUERIES, CHUNK, CHUNKS = 5, 15, 300, 10
NOISE, JITTER = 1.9, 0.9  # 1-shot accuracy is about 65 %
VERSIONS = {"ours": logistic, "scikit-learn": sklearn_logistic}


class Case(NamedTuple):
    """Support images per class, and jittered copies of each."""

    shots: int
    copies: int


CASES = (Case(1, 5), Case(5, 1), Case(5, 5))


def draw_episodes(case: Case, seed: int, count: int = CHUNK) -> tuple[Tensor, Tensor, Tensor]:
    """Draw (E, way * shots * copies, D) support features, their labels, and (E, way * queries, D) query features."""
    generator = torch.Generator().manual_seed(seed)

    def noise(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    basis, common = noise(LATENT, DIM) / LATENT**0.5, noise(DIM)
    centers = noise(count, WAY, 1, LATENT)
    shots = centers + NOISE * noise(count, WAY, case.shots, LATENT)
    copies = shots[:, :, :, None] + JITTER * noise(count, WAY, case.shots, case.copies, LATENT)
    queries = centers + NOISE * noise(count, WAY, QUERIES, LATENT)
    support, query = (
        F.normalize((latent.reshape(count, -1, LATENT) @ basis + common).relu_(), dim=-1)
        for latent in (copies, queries)
    )
    return support, torch.arange(WAY).repeat_interleave(case.shots * case.copies), query


def measure_episodes(options: Options) -> Tables:
    """Measure seconds, accuracies, iterations and peak memory of each case."""
    rows = [compare_classifiers(case) for case in CASES]
    if options.memory:
        rows = [{**row, "peak MiB": run_in_child(_peak, case) / 2**20} for case, row in zip(CASES, rows, strict=True)]
    return {f"{CHUNK * CHUNKS} episodes, 5-way, 75 queries, {torch.get_num_threads()} threads": rows}


def compare_classifiers(case: Case, chunks: int = CHUNKS) -> dict[str, Any]:
    """Return seconds and accuracy of our classifier and of scikit-learn's."""
    answers = torch.arange(WAY).repeat_interleave(QUERIES)
    seconds, right = dict.fromkeys(VERSIONS, 0.0), dict.fromkeys(VERSIONS, 0.0)
    same, iterations = 0.0, []
    for version in VERSIONS.values():
        version(*draw_episodes(case, -1, 20), WAY)  # warm-up
    for seed in range(chunks):
        support, labels, queries = draw_episodes(case, seed)
        predicted = {}
        for name, version in VERSIONS.items():
            start = time.perf_counter()
            predicted[name] = version(support, labels, queries, WAY)
            seconds[name] += time.perf_counter() - start
            right[name] += (predicted[name] == answers).double().mean().item() / chunks
        same += (predicted["ours"] == predicted["scikit-learn"]).double().mean().item() / chunks
        iterations.append(fit(support, labels.expand(len(support), -1), WAY).iterations.double())
    counts = torch.cat(iterations)
    return {
        "case": f"{case.shots}-shot, {case.copies} copies",
        **{f"{name} s": value for name, value in seconds.items()},
        "faster": seconds["scikit-learn"] / seconds["ours"],
        "accuracy": 100 * right["ours"],
        "difference": 100 * (right["ours"] - right["scikit-learn"]),
        "equal %": 100 * same,
        "iterations": counts.mean().item(),
        "most": int(counts.max()),
    }


def _peak(case: Case) -> int:
    logistic(*draw_episodes(case, -1, 20), WAY)
    episodes = draw_episodes(case, 0)
    return measure_peak(lambda: logistic(*episodes, WAY))
