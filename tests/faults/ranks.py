"""Several processes of one run: parts smaller than their number, ranks without a sample, and ranks that die or stop.

What an empty rank takes part in has the value of one process with all samples. When a rank dies or stops, all others
exit within the timeout of the run, with a message.
"""

import json
import os
import signal
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import psutil
import torch
import torch.distributed as dist
from _files import epochs, read_json
from _process import Command, run, start, worst
from campaign import Case, Verdict
from torch import Tensor, nn

TIMEOUT = 20  # seconds that a rank waits for another
SLACK = 40.0  # seconds in which it then exits, on a busy machine
ROWS, WIDTH, CLASSES = 24, 8, 5
TRAININGS = """
digits-opl --scale tiny --epochs 1 --devices 2 --data.val 1
digits-opl --scale tiny --epochs 1 --devices 2 --data.val 0
digits-opl --scale tiny --epochs 1 --devices 2 --data.test 1
digits-opl --scale tiny --epochs 1 --devices 2 --data.test 0
digits-opl --scale tiny --epochs 1 --devices 2 --data.test 1 --data.val 1 --selection best-val
digits-ce --scale tiny --epochs 1 --devices 3 --data.val 1 --data.test 2
digits-opl --scale tiny --epochs 1 --devices 2 --batch-size 1 --data.rows 20
digits-opl --scale tiny --epochs 1 --devices 2 --batch-size 159
digits-opl --scale tiny --epochs 1 --devices 2 --data.val 1 --accumulate 3
cifar10-noisy-uniform-tl-opl --scale tiny --devices 2 --data.val 1
cifar100-resnet56-center --scale tiny --epochs 1 --devices 2 --data.val 1
cifar-fs-rfs-opl --scale tiny --epochs 1 --devices 2
pacs-art-rsc-opl --scale tiny --epochs 1 --devices 2
"""
LOSSES = (
    ("killed", signal.SIGKILL, (0, 1)), ("stopped", signal.SIGSTOP, (0, 1)), ("terminated", signal.SIGTERM, (0, 1)),
    ("aborted", signal.SIGABRT, (1,)),
)  # fmt: skip


def _projection(
    features: Tensor, labels: Tensor, form: str = "mean_abs", *, ignored: bool = False, soft: bool = False
) -> list[float]:
    """OPL of the global batch, and the sum of its gradients over all ranks."""
    import opl

    if ignored and not len(labels):
        features, labels = torch.randn(3, WIDTH), torch.full((3,), -100)
    if soft:
        labels = nn.functional.one_hot(labels, CLASSES).float() * 0.8 + 0.2 / CLASSES
    features.requires_grad_()
    projection = opl.orthogonal_projection(features, labels, form=form, group=dist.group.WORLD)
    projection.loss.backward()
    total = features.grad.abs().sum() / dist.get_world_size()  # DDP averages, so ranks have this many times their share
    dist.all_reduce(total)
    return [float(projection.loss), float(projection.same), float(projection.other), float(total)]


def _geometry(features: Tensor, labels: Tensor) -> list[float]:
    from opl.geometry import Geometry

    geometry = Geometry(WIDTH, num_classes=CLASSES)
    if len(labels):
        geometry.update(features, labels)
    merged = geometry.all_reduce()
    return [float(merged.same), float(merged.other()), float(merged.orthogonality())]


def _centers(features: Tensor, labels: Tensor) -> list[float]:
    from opl.losses import CenterLoss

    torch.manual_seed(0)
    loss = CenterLoss(WIDTH, num_classes=CLASSES, global_batch=True)
    for _ in range(2):
        loss(features.requires_grad_(), labels)
    return loss.centers.flatten().tolist()


class _Network(nn.Linear):
    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        from opl.experiments.types import Output

        return Output(images, super().forward(images))


def _validation(features: Tensor, labels: Tensor, *, keep: bool) -> list[float]:
    from opl.experiments.training.validation import validate
    from opl.experiments.types import Batch

    torch.manual_seed(0)
    rows = torch.arange(len(labels)) + 100 * dist.get_rank()
    batches = [Batch(features, labels, rows, 1.0)] if len(labels) else []
    measured = validate(_Network(WIDTH, CLASSES), batches, CLASSES, group=dist.group.WORLD, keep=keep)
    return [measured.numbers[name] for name in ("top1", "top5", "loss", "s", "d")]


Collective = Callable[[Tensor, Tensor], list[float]]
FORMS = ("mean_abs", "abs_mean", "mean")
COLLECTIVES: dict[str, Collective] = {
    **{f"OPL, {form}": partial(_projection, form=form) for form in FORMS},
    **{f"OPL, {form}, labels ignored": partial(_projection, form=form, ignored=True) for form in FORMS},
    "OPL, soft labels": partial(_projection, soft=True),
    "geometry": _geometry,
    "centers": _centers,
    "validation": partial(_validation, keep=False),
    "validation with predictions": partial(_validation, keep=True),
}


def cases(scratch: Path, share: float) -> Iterator[Case]:
    """Empty ranks, small parts, lost ranks."""
    for name, work in COLLECTIVES.items():
        for empty in range(3):
            yield Case(f"{name}, rank {empty} of 3 without a sample", partial(_compare, work, empty))
    for line in TRAININGS.strip().splitlines():
        yield Case(line, partial(_train, line))
    for name, number, positions in LOSSES:
        yield from (Case(f"rank {rank} {name}", partial(_lose, number, rank)) for rank in positions)


def _train(argv: str, out: Path) -> Verdict:
    ended = run(f"train {argv} --out .", out, fresh=True)
    lost = ended.code == 0 and not any(out.rglob("done"))
    return Verdict("lost" if lost else ended.outcome, ended=ended)


def _compare(work: Collective, empty: int, store: Path) -> Verdict:
    """The value on three ranks, of which one has no sample, is the value on one rank with all samples."""
    alone = _start_rank(store / "alone", work, 0, 1, -1).wait(60.0)
    together = [_start_rank(store / "together", work, rank, 3, empty) for rank in range(3)]
    ended = [process.wait(60.0) for process in together]
    failed = worst([alone, *ended])
    if failed.fault or failed.code:
        refused = all(result.outcome == "refused" for result in ended)
        return Verdict("refused" if refused else failed.fault or "lost", ended=failed)
    values = [torch.tensor(json.loads(result.output.splitlines()[-1])) for result in (alone, *ended)]
    equal = all(torch.allclose(value, values[0], rtol=1e-5, atol=1e-5) for value in values)
    return Verdict("right" if equal else "silent", ended=ended[0])


def _start_rank(store: Path, work: Collective, rank: int, world: int, empty: int) -> Command:
    """Start a rank; the ranks that are not empty share one batch."""
    rng = torch.Generator().manual_seed(0)
    features, labels = torch.randn(ROWS, WIDTH, generator=rng), torch.randint(0, CLASSES, (ROWS,), generator=rng)
    filled = [index for index in range(world) if index != empty]
    rows = torch.arange(ROWS).tensor_split(len(filled))[filled.index(rank)] if rank != empty else []

    def function() -> None:
        dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world)
        print(json.dumps(work(features[rows], labels[rows])))
        dist.barrier()
        dist.destroy_process_group()

    return start("", store.parent, function=function)


def _lose(number: int, rank: int, out: Path) -> Verdict:
    """Lose a rank in the middle of a training."""
    argv = f"train digits-opl --scale tiny --epochs 4000 --devices 2 --timeout {TIMEOUT} --out ."
    process = start(argv, out, fresh=True)
    folder = out / "digits-opl" / "seed-0"
    process.wait_until(lambda: len(epochs(folder)) >= 2)
    others = psutil.Process(process.pid).children(recursive=True) if process.child.exitcode is None else []
    if not others:
        return Verdict("lost", "there is no training on two processes", process.wait(0.0))
    os.kill(others[0].pid if rank else process.pid, number)
    ended = process.wait(TIMEOUT + SLACK)
    if ended.hung or ended.orphans or "Traceback" in ended.output:
        return Verdict("hang" if ended.hung else "orphan" if ended.orphans else "traceback", ended=ended)
    mute = rank == 0 and number in (signal.SIGKILL, signal.SIGSTOP)  # the first process cannot say anything
    if not mute and "opl:" not in ended.output:
        return Verdict("silent", "no message", ended)
    if ended.code == 0 or not (folder / "checkpoint.pt").exists():
        return Verdict("lost", "no checkpoint", ended)
    explained = read_json(folder / "error.json") or number == signal.SIGTERM or mute
    return Verdict("refused" if explained else "silent", ended=ended)
