"""What several tests share: the answers by definition, and processes that work together."""

import math
import os
import socket
from dataclasses import replace
from itertools import permutations
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, settings
from torch import Tensor

os.environ.setdefault("OMP_NUM_THREADS", "1")  # for child processes: two with two threads each crawl
if "PYTEST_XDIST_WORKER" in os.environ:
    torch.set_num_threads(1)

# Examples of each property: few in the default suite (the same ones in CI, new ones elsewhere), many in `make fuzz`.
COMMON = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("default", max_examples=25, derandomize="CI" in os.environ, **COMMON)
settings.register_profile("fuzz", max_examples=500, print_blob=True, **COMMON)
settings.load_profile("default")


def by_definition(
    features: Tensor,
    labels: Tensor,
    *,
    gamma: float,
    form: str,
    ignore_index: int = -100,
    same_weight: float = 1.0,
    references: tuple[Tensor, Tensor] | None = None,
):
    """The loss written as a double loop over ordered pairs of different samples, or pairs with references.

    Cosines are taken of rows scaled by their largest entry, so that 1e18 does not overflow; a zero row has cosine 0.
    """
    if references is None:
        pairs = list(permutations(range(len(labels)), 2))
    else:
        pairs = [(i, len(labels) + j) for i in range(len(labels)) for j in range(len(references[1]))]
        features, labels = torch.cat([features, references[0]]), torch.cat([labels, references[1]])
    there = [bool((label != ignore_index).any()) for label in labels]
    sums = {True: features.new_zeros(()), False: features.new_zeros(())}
    weights = {True: 0.0, False: 0.0}
    for i, j in pairs:
        if not (there[i] and there[j]):
            continue
        alike = _same_class(labels[i], labels[j])
        cosine = _cosine(features[i], features[j])
        sums[True] = sums[True] + alike * cosine
        sums[False] = sums[False] + (1 - alike) * _penalized(cosine, form)
        weights[True] += alike
        weights[False] += 1 - alike
    same = sums[True] / weights[True] if weights[True] > 1e-6 else sums[True] * 0
    other = sums[False] / weights[False] if weights[False] > 1e-6 else sums[False] * 0
    if form == "abs_mean":
        other = other.abs()
    return same_weight * (1 - same) + gamma * other, same, other


def _penalized(cosine: Tensor, form: str) -> Tensor:
    return cosine.abs() if form == "mean_abs" else cosine * cosine if form == "squared" else cosine


def _same_class(one: Tensor, two: Tensor) -> float:
    """1 or 0 for class ids; the inner product of probabilities; the cosine of sets of labels."""
    if one.ndim == 0:
        return float(one == two)
    rows = []
    for row in (one.tolist(), two.tolist()):
        length = 1.0 if abs(sum(row) - 1) <= 1e-2 else math.sqrt(sum(value * value for value in row))
        rows.append([value / length if length else 0.0 for value in row])
    return sum(a * b for a, b in zip(*rows, strict=True))


def _cosine(a: Tensor, b: Tensor) -> Tensor:
    if not (a.any() and b.any()):
        return a.new_zeros(())
    a, b = a / a.detach().abs().max(), b / b.detach().abs().max()
    return (a * b).sum() / (a.square().sum().sqrt() * b.square().sum().sqrt())


@pytest.fixture
def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


@pytest.fixture
def apart(tmp_path, monkeypatch):
    """No test sees this machine's data, caches or network unless it asks to."""
    for name in ("OPL_DATA", "HF_HUB_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OPL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)  # it may have been imported before


@pytest.fixture
def shelf(tmp_path, monkeypatch) -> Path:
    """The folder that OPL_DATA names, for a test to fill."""
    monkeypatch.setenv("OPL_DATA", str(tmp_path / "shelf"))
    return tmp_path / "shelf"


@pytest.fixture
def few(monkeypatch):
    """Data sets with fewer images of each class."""
    from opl.experiments.data import CATALOG

    for name, each in (("cifar-fs", 6), ("mini-imagenet", 2), ("tiered-imagenet", 1)):
        known = CATALOG[name]
        images = {part: each * count for part, count in known.classes.items()}
        monkeypatch.setitem(CATALOG, name, replace(known, images=images, per_class=known.per_class and each))


@pytest.fixture
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def stopped(monkeypatch):
    """`stopped(recipe, out, epoch)`: the run, ended by an exception after the checkpoint of that epoch."""

    from opl.experiments.run_folder import RunFolder
    from opl.experiments.training.run import run

    class Stop(Exception):
        pass

    def run_until(recipe, out, epoch: int) -> None:
        real = RunFolder.save

        def save(folder, state):
            real(folder, state)
            if state["epoch"] == epoch:
                raise Stop

        with monkeypatch.context() as patch:
            patch.setattr(RunFolder, "save", save)
            with pytest.raises(Stop):
                run(recipe, out)

    return run_until
