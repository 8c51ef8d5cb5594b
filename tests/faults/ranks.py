"""Several processes of one run: parts smaller than their number, ranks without a sample, and ranks that die or stop.

What an empty rank takes part in has the value of one process with all samples. When a rank dies or stops, all others
exit within the timeout of the run, with a message.
"""

import json
import os
import shutil
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path

import psutil
import torch
from _process import Command, Ended, start
from _run_files import epochs, read_json
from _tally import Tally
from torch import Tensor, nn

TIMEOUT = 20  # seconds that a rank waits for another
SLACK = 40.0  # seconds in which it then exits, on a busy machine
ROWS, WIDTH, CLASSES = 24, 8, 5
TINY = ("--scale", "tiny", "--epochs", "1")
TRAININGS: tuple[tuple[str, ...], ...] = (
    ("digits-opl", *TINY, "--devices", "2", "--data.val", "1"),
    ("digits-opl", *TINY, "--devices", "2", "--data.val", "0"),
    ("digits-opl", *TINY, "--devices", "2", "--data.test", "1"),
    ("digits-opl", *TINY, "--devices", "2", "--data.test", "0"),
    ("digits-opl", *TINY, "--devices", "2", "--data.test", "1", "--data.val", "1", "--selection", "best-val"),
    ("digits-ce", *TINY, "--devices", "3", "--data.val", "1", "--data.test", "2"),
    ("digits-opl", *TINY, "--devices", "2", "--batch-size", "1", "--data.rows", "20"),
    ("digits-opl", *TINY, "--devices", "2", "--batch-size", "159"),
    ("digits-opl", *TINY, "--devices", "2", "--data.val", "1", "--accumulate", "3"),
    ("cifar10-noisy-uniform-tl-opl", "--scale", "tiny", "--devices", "2", "--data.val", "1"),
    ("cifar100-resnet56-center", *TINY, "--devices", "2", "--data.val", "1"),
    ("cifar-fs-rfs-opl", *TINY, "--devices", "2"),
    ("pacs-art-rsc-opl", *TINY, "--devices", "2"),
)
LOSSES = {
    "rank 1 killed": (signal.SIGKILL, False),
    "rank 0 killed": (signal.SIGKILL, True),
    "rank 1 stopped": (signal.SIGSTOP, False),
    "rank 0 stopped": (signal.SIGSTOP, True),
    "rank 1 terminated": (signal.SIGTERM, False),
    "rank 0 terminated": (signal.SIGTERM, True),
    "rank 1 aborted": (signal.SIGABRT, False),
}


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


def ranks(scratch: Path, tally: Tally, share: float) -> None:
    """Empty ranks, small parts, lost ranks."""
    for name, work in COLLECTIVES.items():
        for empty in (1,) if share < 0.1 else (0, 1, 2):
            _compare(scratch / "store", name, work, empty, tally)
    for argv in TRAININGS[: max(1, round(len(TRAININGS) * share))]:
        out = _empty(scratch / "train")
        ended = start(["train", *argv, "--out", str(out)], cwd=out, fresh=True).wait()
        done = ended.code == 0 and any(out.rglob("done"))
        tally.add(ended.fault or ("right" if done else "refused" if ended.refused else "lost"), " ".join(argv), ended)
    for name, (number, first) in LOSSES.items() if share >= 0.1 else ():
        _lose(_empty(scratch / "lose"), name, number, first, tally)


def _empty(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def _compare(store: Path, name: str, work: Callable[[int, int, int], list[float]], empty: int, tally: Tally) -> None:
    """The value on three ranks, of which one has no sample, is the value on one rank with all samples."""
    _empty(store)
    alone = _start_rank(store / "alone", work, 0, 1, -1).wait(60.0)
    together = [_start_rank(store / "together", work, rank, 3, empty) for rank in range(3)]
    ended = [process.wait(60.0) for process in together]
    case = f"{name}, rank {empty} of 3 without a sample"
    worst = next((result for result in (alone, *ended) if result.fault or result.code), None)
    if worst is not None:
        tally.add("refused" if all(result.refused for result in ended) else worst.fault or "lost", case, worst)
        return
    values = [torch.tensor(json.loads(result.output.splitlines()[-1])) for result in (alone, *ended)]
    equal = all(torch.allclose(value, values[0], rtol=1e-5, atol=1e-5) for value in values)
    tally.add("right" if equal else "silent", case, ended[0])


def _start_rank(
    store: Path, work: Callable[[int, int, int], list[float]], rank: int, world: int, empty: int
) -> Command:
    def call() -> None:
        import torch.distributed as dist

        dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world)
        print(json.dumps(work(rank, world, empty)))
        dist.barrier()
        dist.destroy_process_group()

    return start(call=call)


def _lose(out: Path, name: str, number: int, first: bool, tally: Tally) -> None:
    """Lose a rank in the middle of a training."""
    argv = ["train", "digits-opl", "--scale", "tiny", "--epochs", "4000", "--devices", "2", "--timeout", str(TIMEOUT)]
    process = start([*argv, "--out", str(out)], cwd=out, fresh=True)
    folder = out / "digits-opl" / "seed-0"
    process.wait_until(lambda: len(epochs(folder)) >= 2)
    others = psutil.Process(process.pid).children(recursive=True) if process.child.exitcode is None else []
    if not others:
        tally.add("lost", f"{name}: there is no training on two processes", process.wait(0.0))
        return
    os.kill(process.pid if first else others[0].pid, number)
    ended = process.wait(TIMEOUT + SLACK)
    tally.add(_judge_loss(name, ended, folder), name, ended)


def _judge_loss(name: str, ended: Ended, folder: Path) -> str:
    if ended.hung or ended.orphans or "Traceback" in ended.output:
        return "hang" if ended.hung else "orphan" if ended.orphans else "traceback"
    first_is_gone = name in ("rank 0 killed", "rank 0 stopped")
    if not first_is_gone and "opl:" not in ended.output:
        return "silent"
    if ended.code == 0 or not (folder / "checkpoint.pt").exists():
        return "lost"
    explained = read_json(folder / "error.json") or "terminated" in name or first_is_gone
    return "refused" if explained else "silent"
