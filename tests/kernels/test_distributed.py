"""The global batch for real: gloo, two and three processes, even and uneven batches, every form."""

import json
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import opl
from _gloo import together
from opl.errors import DistributedError, LabelError

FORMS = ("mean_abs", "abs_mean", "mean", "squared")


def model(signed: bool) -> nn.Module:
    torch.manual_seed(1)
    last = nn.Identity() if signed else nn.ReLU()
    return nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 8), last).double()


def batch(rows: int, kind: str, classes: int):
    generator = torch.Generator().manual_seed(rows)
    x = torch.randn(rows, 6, dtype=torch.float64, generator=generator)
    if kind == "soft":
        return x, torch.rand(rows, classes, dtype=torch.float64, generator=generator).softmax(1)
    if kind == "several":
        return x, (torch.rand(rows, classes, generator=generator) < 0.5).double()
    labels = torch.randint(0, classes, (rows,), generator=generator) * 7
    labels[::6] = -100
    return x, labels


def one_process(signed, kind, classes, form, rows):
    net = model(signed)
    x, labels = batch(rows, kind, classes)
    got = opl.orthogonal_projection(net(x), labels, form=form, algorithm="pairs")
    got.loss.backward()
    return torch.stack(got).detach(), [parameter.grad for parameter in net.parameters()]


def compare_with_one_process(rank: int, sizes: list[int]) -> None:
    rows = slice(sum(sizes[:rank]), sum(sizes[: rank + 1]))
    kinds = [("hard", 3), ("hard", 40), ("soft", 3), ("soft", 40), ("several", 4)]
    for signed, (kind, classes) in product((False, True), kinds):
        for form in FORMS:
            values, gradients = one_process(signed, kind, classes, form, sum(sizes))
            x, labels = batch(sum(sizes), kind, classes)
            straight = form in ("mean", "abs_mean") or (form == "mean_abs" and not signed)
            for algorithm in ["auto", "features"] + ["class_sums"] * (straight and kind != "several"):
                net = DistributedDataParallel(model(signed))
                got = opl.orthogonal_projection(
                    net(x[rows]), labels[rows], form=form, group=dist.group.WORLD, algorithm=algorithm
                )
                torch.testing.assert_close(torch.stack(got).detach(), values, rtol=1e-10, atol=1e-10)
                got.loss.backward()
                for parameter, expected in zip(net.parameters(), gradients, strict=True):
                    torch.testing.assert_close(parameter.grad, expected, rtol=1e-10, atol=1e-10)


SLOW = [pytest.param(sizes, marks=pytest.mark.slow) for sizes in ([8, 8], [5, 11, 0], [0, 0, 9])]


@pytest.mark.parametrize("sizes", [[5, 11], *SLOW], ids=str)
def test_gradients_after_averaging_equal_those_of_one_process(tmp_path, sizes):
    together(compare_with_one_process, len(sizes), tmp_path, sizes)


def compare_references_with_one_process(rank: int, sizes: list[int], others: list[int]) -> None:
    """References are spread over the processes as the batch is, or lie on one of them alone."""
    slices = [slice(sum(part[:rank]), sum(part[: rank + 1])) for part in (sizes, others)]
    for kind in ("hard", "soft", "several"):
        (x, y), (z, of) = batch(sum(sizes), kind, 4), batch(sum(others), kind, 4)
        for form in FORMS:
            for signed in (True, False):
                net = model(signed)
                whole = opl.orthogonal_projection(net(x), y, form=form, references=(net(z), of))
                whole.loss.backward()
                many = DistributedDataParallel(model(signed))
                both = many(torch.cat([x[slices[0]], z[slices[1]]]))
                mine, theirs = both.split([sizes[rank], others[rank]])
                got = opl.orthogonal_projection(
                    mine, y[slices[0]], form=form, references=(theirs, of[slices[1]]), group=dist.group.WORLD
                )
                torch.testing.assert_close(torch.stack(got), torch.stack(whole), rtol=1e-10, atol=1e-10)
                got.loss.backward()
                for parameter, expected in zip(many.parameters(), net.parameters(), strict=True):
                    torch.testing.assert_close(parameter.grad, expected.grad, rtol=1e-9, atol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize(("sizes", "others"), [([5, 7], [3, 6]), ([5, 0], [0, 4])], ids=str)
def test_references_over_processes_equal_those_of_one_process(tmp_path, sizes, others):
    together(compare_references_with_one_process, len(sizes), tmp_path, sizes, others)


def refuse_together(rank: int) -> None:
    loss = opl.OrthogonalProjectionLoss(global_batch=True)
    features, labels = torch.randn(4, 3), torch.tensor([0, 1, 0, 1])

    def refused(x, y, kinds, words):
        with pytest.raises(kinds[rank]) as caught:
            loss(x, y)
        assert words[rank] in str(caught.value), caught.value

    bad = torch.tensor([0, -3, 0, 1])
    refused(features, bad if rank == 0 else labels, (LabelError, DistributedError), ("label -3", "process 0"))
    other = (DistributedError, DistributedError)
    refused(torch.randn(4, 3 + rank), labels, other, ("features of 4 numbers", "features of 3 numbers"))
    refused(features.double() if rank else features, labels, other, ("types differ", "types differ"))
    soft = torch.full((4, 2), 0.5)
    refused(features, soft if rank else labels, other, ("labels of width 2", "labels of width 0"))
    x = features.clone().requires_grad_()  # after all that, a good batch still passes
    (gradient,) = torch.autograd.grad(loss(x, labels), x, create_graph=True)
    with pytest.raises(opl.errors.DerivativeError, match="first derivative only"):
        gradient.sum().backward()


def test_a_bad_batch_stops_every_process_instead_of_hanging_them(tmp_path):
    together(refuse_together, 2, tmp_path)


def test_a_group_of_one_is_the_local_batch(tmp_path):
    dist.init_process_group("gloo", init_method=f"file://{tmp_path / 'store'}", rank=0, world_size=1)
    try:
        for signed in (False, True):
            x, labels = batch(20, "hard", 3)
            features = model(signed)(x)
            for form in FORMS:
                everywhere = opl.OrthogonalProjectionLoss(form=form, global_batch=True)(features, labels)
                torch.testing.assert_close(everywhere, opl.OrthogonalProjectionLoss(form=form)(features, labels))
    finally:
        dist.destroy_process_group()


@pytest.mark.slow
def test_fewer_bytes_cross_the_network_by_the_chosen_way():
    """Counted by the kernel, process by process, while two of them exchange one batch: see benchmarks/network.py."""
    script = Path(opl.__file__).parents[2] / "benchmarks" / "network.py"
    if not Path("/proc/self/io").exists():
        pytest.skip("needs Linux's /proc/self/io to count the bytes that a process sends")
    settings = ["--rows", "256", "--dim", "64", "--classes", "10", "--steps", "20", "--json"]
    argv = [sys.executable, str(script), *settings]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout.splitlines()[-1])  # gloo of some torch versions prints lines of its own
    assert row["chosen"] == "class_sums"
    assert row["class_sums"] < 0.5 * row["features"]


AND_LEAVE = """
import os, sys, torch, opl
import torch.distributed as dist
dist.init_process_group("gloo", init_method="file://" + sys.argv[1], rank=0, world_size=1)
features = torch.rand(8, 4, requires_grad=True)
opl.OrthogonalProjectionLoss(global_batch=True)(features, torch.arange(8) % 2).backward()
during = [open(f"/proc/self/task/{each}/comm").read().strip() for each in os.listdir("/proc/self/task")]
dist.destroy_process_group()
after = [open(f"/proc/self/task/{each}/comm").read().strip() for each in os.listdir("/proc/self/task")]
print([sum("gloo" in name for name in names) for names in (during, after)])
"""


@pytest.mark.slow
def test_no_thread_of_a_group_outlives_it(tmp_path):
    """Such a thread aborts the process now and then while Python shuts down."""
    if not Path("/proc/self/task").exists():
        pytest.skip("needs Linux's /proc/self/task to list the threads of a process")
    argv = [sys.executable, "-c", AND_LEAVE, str(tmp_path / "store")]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=600, check=False)
    during, after = json.loads(done.stdout.splitlines()[-1])
    if not during:
        pytest.skip("this version of torch does not name the threads of gloo")
    assert (after, done.returncode) == (0, 0), done.stderr
