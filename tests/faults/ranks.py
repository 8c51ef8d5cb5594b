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
from _files import epochs, read_json
from _process import Command, run, start
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


def _samples(rank: int, world: int, empty: int) -> tuple[Tensor, Tensor]:
    """The samples of a rank; the ranks that are not empty share one batch."""
    rng = torch.Generator().manual_seed(0)
    features, labels = torch.randn(ROWS, WIDTH, generator=rng), torch.randint(0, CLASSES, (ROWS,), generator=rng)
    if rank == empty:
        return features[:0], labels[:0]
    filled = [index for index in range(world) if index != empty]
    part = filled.index(rank)
    return features.tensor_split(len(filled))[part].clone(), labels.tensor_split(len(filled))[part]


def _projection(form: str, ignored: bool, rank: int, world: int, empty: int) -> list[float]:
    """OPL of the global batch, and the sum of its gradients over all ranks."""
    import opl

    features, labels = _samples(rank, world, empty)
    if ignored and rank == empty:
        features, labels = torch.randn(3, WIDTH), torch.full((3,), -100)
    features.requires_grad_()
    projection = opl.orthogonal_projection(features, labels, form=form, group=torch.distributed.group.WORLD)
    projection.loss.backward()
    total = features.grad.abs().sum() / world  # DDP averages gradients, so each rank has `world` times its share
    torch.distributed.all_reduce(total)
    return [float(projection.loss), float(projection.same), float(projection.other), float(total)]


def _soft_labels(rank: int, world: int, empty: int) -> list[float]:
    import opl

    features, labels = _samples(rank, world, empty)
    soft = nn.functional.one_hot(labels, CLASSES).float() * 0.8 + 0.2 / CLASSES
    return [float(value) for value in opl.orthogonal_projection(features, soft, group=torch.distributed.group.WORLD)]


def _geometry(rank: int, world: int, empty: int) -> list[float]:
    from opl.geometry import Geometry

    features, labels = _samples(rank, world, empty)
    geometry = Geometry(WIDTH, num_classes=CLASSES)
    if len(labels):
        geometry.update(features, labels)
    merged = geometry.all_reduce()
    return [float(merged.same), float(merged.other()), float(merged.orthogonality())]


def _centers(rank: int, world: int, empty: int) -> list[float]:
    from opl.losses import CenterLoss

    torch.manual_seed(0)
    loss = CenterLoss(WIDTH, num_classes=CLASSES, global_batch=True)
    features, labels = _samples(rank, world, empty)
    for _ in range(2):
        loss(features.requires_grad_(), labels)
    return loss.centers.flatten().tolist()


class _Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.fc = nn.Linear(WIDTH, CLASSES)

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        from opl.experiments.types import Output

        return Output(images, self.fc(images))


def _validation(keep: bool, rank: int, world: int, empty: int) -> list[float]:
    from opl.experiments.training.validation import validate
    from opl.experiments.types import Batch

    features, labels = _samples(rank, world, empty)
    batches = [Batch(features, labels, torch.arange(len(labels)) + 100 * rank, 1.0)] if len(labels) else []
    measured = validate(_Network(), batches, CLASSES, group=torch.distributed.group.WORLD, keep=keep)
    return [measured.numbers[name] for name in ("top1", "top5", "loss", "s", "d")]


FORMS = ("mean_abs", "abs_mean", "mean")
COLLECTIVES = {
    **{f"OPL, {form}": partial(_projection, form, False) for form in FORMS},
    **{f"OPL, {form}, labels ignored": partial(_projection, form, True) for form in FORMS},
    "OPL, soft labels": _soft_labels,
    "geometry": _geometry,
    "centers": _centers,
    "validation": partial(_validation, False),
    "validation with predictions": partial(_validation, True),
}


def cases(scratch: Path, share: float) -> Iterator[Case]:
    """Empty ranks, small parts, lost ranks."""
    for name, work in COLLECTIVES.items():
        for empty in range(3):
            case = f"{name}, rank {empty} of 3 without a sample"
            yield Case(case, lambda store, work=work, empty=empty: _compare(store, work, empty))
    for line in TRAININGS.strip().splitlines():
        yield Case(line, lambda out, line=line: _train(out, line))
    for name, number, positions in LOSSES:
        for rank in positions:
            yield Case(f"rank {rank} {name}", lambda out, n=number, r=rank: _lose(out, n, r))


def _train(out: Path, argv: str) -> Verdict:
    ended = run(f"train {argv} --out .", out, fresh=True)
    lost = ended.code == 0 and not any(out.rglob("done"))
    return Verdict(ended.fault or ("lost" if lost else ended.outcome), ended=ended)


def _compare(store: Path, work: Callable[[int, int, int], list[float]], empty: int) -> Verdict:
    """The value on three ranks, of which one has no sample, is the value on one rank with all samples."""
    alone = _start_rank(store / "alone", work, 0, 1, -1).wait(60.0)
    together = [_start_rank(store / "together", work, rank, 3, empty) for rank in range(3)]
    ended = [process.wait(60.0) for process in together]
    worst = next((result for result in (alone, *ended) if result.fault or result.code), None)
    if worst is not None:
        refused = all(result.outcome == "refused" for result in ended)
        return Verdict("refused" if refused else worst.fault or "lost", ended=worst)
    values = [torch.tensor(json.loads(result.output.splitlines()[-1])) for result in (alone, *ended)]
    equal = all(torch.allclose(value, values[0], rtol=1e-5, atol=1e-5) for value in values)
    return Verdict("right" if equal else "silent", ended=ended[0])


def _start_rank(
    store: Path, work: Callable[[int, int, int], list[float]], rank: int, world: int, empty: int
) -> Command:
    def function() -> None:
        import torch.distributed as dist

        dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world)
        print(json.dumps(work(rank, world, empty)))
        dist.barrier()
        dist.destroy_process_group()

    return start("", store.parent, function=function)


def _lose(out: Path, number: int, rank: int) -> Verdict:
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
