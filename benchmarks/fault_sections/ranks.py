"""Several processes of one run: parts smaller than their number, ranks without a sample, and ranks that die or stop.

Every collective must be reached by every rank. What an empty rank takes part in has the value of one process with all
samples. When a rank dies or stops, all others end within the time-out that the run was given, with a sentence.
"""

import json
import os
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from . import _collectives
from ._process import Ended, Started, descendants, start
from ._runs import epochs, read_json
from ._tally import Outcome, Tally, common_fault

TIMEOUT = 20  # seconds that a rank waits for another
SLACK = 40.0  # seconds in which a rank then ends, on a busy machine
TRAIN_LIMIT = 300.0
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


def ranks(scratch: Path, tally: Tally, share: float) -> None:
    """Small parts, empty ranks, lost ranks."""
    for name, work in _collectives.WORK.items():
        for empty in (1,) if share < 0.1 else (0, 1, 2):
            _together(scratch, name, work, empty, tally)
    for words in TRAININGS[: max(1, round(len(TRAININGS) * share))]:
        _train(scratch / "train", words, tally)
    if share >= 0.1:
        for name, lose in LOSSES.items():
            _lose(scratch / "lose", name, lose, tally)


def _together(scratch: Path, name: str, work: Callable[[int, int, int], Any], empty: int, tally: Tally) -> None:
    """Do the work on three ranks, of which one has no sample, and on one with all samples."""
    folder = scratch / "store"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    alone = _start_rank(folder / "alone", work, 0, 1, -1).wait(60.0)
    started = [_start_rank(folder / "together", work, rank, 3, empty) for rank in range(3)]
    ended = [each.wait(60.0) for each in started]
    case = f"{name}, rank {empty} of 3 without a sample"
    worst = next((each for each in (alone, *ended) if common_fault(each) or each.code), None)
    if worst is not None:
        refused = all(each.code == 1 and "opl:" in each.said for each in ended)
        tally.add("refused" if refused else common_fault(worst) or "lost", case, worst)
        return
    values = [json.loads(each.said.strip().splitlines()[-1]) for each in ended]
    expected = json.loads(alone.said.strip().splitlines()[-1])
    tally.add("right" if all(_close(value, expected) for value in values) else "silent", case, ended[0])


def _start_rank(store: Path, work: Callable[[int, int, int], Any], rank: int, world: int, empty: int) -> Started:
    def call() -> None:
        import torch.distributed as dist

        dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world)
        value = work(rank, world, empty)
        print(json.dumps(value))
        dist.barrier()
        dist.destroy_process_group()

    return start([], call=call)


def _close(one: Any, other: Any) -> bool:
    if isinstance(one, list):
        return len(one) == len(other) and all(map(_close, one, other))
    return abs(one - other) <= 1e-5 * max(1.0, abs(other))


def _train(out: Path, words: tuple[str, ...], tally: Tally) -> None:
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    ended = start(["train", *words, "--out", str(out)], cwd=out, fresh=True).wait(TRAIN_LIMIT)
    done = any(out.rglob("done"))
    outcome: Outcome = common_fault(ended) or ("right" if ended.code == 0 and done else "refused")
    if outcome == "refused" and "opl:" not in ended.said:
        outcome = "lost"
    tally.add(outcome, f"opl train {' '.join(words)}", ended)


Lose = Callable[[int, int], None]


def _send(number: int, *, first: bool, twice: int = 0) -> Lose:
    def lose(launcher: int, other: int) -> None:
        os.kill(launcher if first else other, number)

    return lose


LOSSES: dict[str, Lose] = {
    "rank 1 killed": _send(signal.SIGKILL, first=False),
    "rank 0 killed": _send(signal.SIGKILL, first=True),
    "rank 1 stopped": _send(signal.SIGSTOP, first=False),
    "rank 0 stopped": _send(signal.SIGSTOP, first=True),
    "rank 1 terminated": _send(signal.SIGTERM, first=False),
    "rank 0 terminated": _send(signal.SIGTERM, first=True),
    "rank 1 aborted": _send(signal.SIGABRT, first=False),
}


def _lose(out: Path, name: str, lose: Lose, tally: Tally) -> None:
    """Lose a rank in the middle of a training; the same command then resumes it."""
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    words = ["train", "digits-opl", "--scale", "tiny", "--epochs", "4000", "--devices", "2", "--timeout", str(TIMEOUT)]
    process = start([*words, "--out", str(out)], cwd=out, fresh=True)
    folder = out / "digits-opl" / "seed-0"
    deadline = time.monotonic() + TRAIN_LIMIT
    while process.poll() is None and len(epochs(folder)) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    others = [pid for pid in descendants(process.pid) if pid != process.pid]
    if process.poll() is not None or not others:
        tally.add("lost", f"{name}: there is no training on two processes", process.wait(0.0))
        return
    lose(process.pid, others[0])
    ended = process.wait(TIMEOUT + SLACK)
    tally.add(_judge_loss(name, ended, folder), name, ended)


def _judge_loss(name: str, ended: Ended, folder: Path) -> Outcome:
    if ended.hung:
        return "hang"
    if ended.orphans:
        return "orphan"
    if "Traceback" in ended.said:
        return "traceback"
    gone = name.startswith("rank 0") and name.endswith(("killed", "stopped"))
    if not gone and "opl:" not in ended.said:
        return "silent"
    if ended.code == 0 or not any(folder.glob("checkpoint.pt")):
        return "lost"
    if name in ("rank 1 killed", "rank 1 stopped", "rank 1 aborted") and not read_json(folder / "error.json"):
        return "silent"
    return "refused"
