"""Folders of runs, records, exports and caches, made by the code under test and damaged by `corruptions`."""

import shutil
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from . import _readers as readers
from ._process import Ended, make_elsewhere, run, start
from ._readers import Reader
from ._runs import epochs

DIGITS = ("digits-opl", "--scale", "small", "--epochs", "4", "--data.val", "100", "--selection", "best-val")
NOISE = ("cifar10-noisy-uniform-tl-opl", "--scale", "tiny")
BASE = ("cifar-fs-rfs", "--scale", "tiny")
AFTER = ("cifar-fs-rfs-distilled", "--scale", "tiny")
ROBUST = ("cifar10-robust-madry-opl", "--scale", "tiny")
EPISODES = ("episodes", "--episodes", "20")
ATTACK = ("attack", "--images", "30", "--iterations", "3", "--queries", "40", "--batch", "10", "--no-sanity")
OTHER = "other"
ORDINARY = (".lock", "report.html", "log.txt", ".png")


@dataclass(frozen=True)
class Tree:
    """A folder with files to damage, and their readers."""

    name: str
    build: Callable[[Path], Ended | None]
    """Makes the folder; returns how a command ended that should not have ended so."""
    patterns: tuple[str, ...]
    """The files to damage."""
    readers: tuple[Reader, ...]
    home: str = ""
    """The folder of the files; the same files of another run are below `OTHER`."""
    quick: bool = False

    def make(self, folder: Path) -> Ended | None:
        """Make the folder; None if all went well."""
        folder.mkdir(parents=True)
        return self.build(folder)

    def files(self, folder: Path) -> list[str]:
        """The files to damage, relative to the folder."""
        found = [file for pattern in self.patterns for file in sorted(folder.glob(pattern)) if file.is_file()]
        return list(dict.fromkeys(str(file.relative_to(folder)) for file in found if not str(file).endswith(ORDINARY)))

    def other(self, file: str) -> str:
        """The same file of another run."""
        return file.replace(self.home, OTHER, 1) if self.home else file


def _train(folder: Path, words: Sequence[str], out: str = "runs") -> Ended | None:
    return _failed(run(["train", *words, "--out", str(folder / out)], environment=_cache(folder)))


def _failed(ended: Ended) -> Ended | None:
    return ended if ended.code or ended.hung else None


def _cache(folder: Path) -> dict[str, str]:
    return {"OPL_CACHE": str(folder / "cache")}


def _other_run(folder: Path, words: Sequence[str], *measure: str) -> Ended | None:
    """The same recipe with another seed, moved out of the runs."""
    fault = _train(folder, [*words, "--seed", "1"], out="elsewhere")
    there = folder / "elsewhere" / words[0] / "seed-1"
    if not fault and measure:
        fault = _failed(run(["evaluate", str(there), *measure]))
    shutil.move(there, folder / OTHER)
    shutil.rmtree(folder / "elsewhere")
    return fault


def _finished(folder: Path) -> Ended | None:
    return _train(folder, DIGITS) or _other_run(folder, DIGITS)


def _unfinished(folder: Path, words: Sequence[str] = DIGITS, after: int = 3) -> Ended | None:
    """A run killed after some epochs, and another that was."""
    for out, seed in ((folder / "runs", "0"), (folder / "elsewhere", "1")):
        for _ in range(20):  # on a fast machine a kill may come too late
            process = start(["train", *words, "--seed", seed, "--out", str(out)], environment=_cache(folder))
            there = out / words[0] / f"seed-{seed}"
            while process.poll() is None and not _has_saved(there, after):
                time.sleep(0.0005)
            process.signal(signal.SIGKILL)
            ended = process.wait()
            if not there.is_dir():
                return ended
            if not (there / "done").exists():
                break
            shutil.rmtree(there)
    shutil.move(folder / "elsewhere" / words[0] / "seed-1", folder / OTHER)
    shutil.rmtree(folder / "elsewhere")
    return None


def _has_saved(run_folder: Path, least: int) -> bool:
    """Whether a run has a checkpoint after so many epochs, or more."""
    try:
        saved = (run_folder / "checkpoint.pt.sha256").stat().st_mtime_ns
        return len(epochs(run_folder)) >= least and saved >= (run_folder / "metrics.jsonl").stat().st_mtime_ns
    except OSError:
        return False


def _noisy(folder: Path) -> Ended | None:
    fault = _train(folder, NOISE) or _other_run(folder, NOISE, "noise")
    return fault or _failed(run(["evaluate", str(folder / "runs" / NOISE[0] / "seed-0"), "noise"]))


def _few_shot(folder: Path) -> Ended | None:
    fault = _train(folder, BASE) or _other_run(folder, BASE, *EPISODES)
    return fault or _failed(run(["evaluate", str(folder / "runs" / BASE[0] / "seed-0"), *EPISODES]))


def _attacked(folder: Path) -> Ended | None:
    """A run whose attack was killed, so that it left a part of a measure."""
    fault = _train(folder, ROBUST) or _other_run(folder, ROBUST)
    there = folder / "runs" / ROBUST[0] / "seed-0"
    process = start(["evaluate", str(there), *ATTACK])
    while process.poll() is None and not any(there.glob("measures/*.part.npz")):
        time.sleep(0.0005)
    process.signal(signal.SIGKILL)
    process.wait()
    return fault


def _reproduced(folder: Path) -> Ended | None:
    words = ["reproduce", "demo", "--scale", "tiny", "--seeds", "1", "--out", str(folder / "runs")]
    other = ("digits-opl", "--scale", "tiny")
    return _failed(run(words, fresh=True)) or _other_run(folder, other)


def _recorded(folder: Path) -> Ended | None:
    rows = (("digits-ce",), ("digits-opl",), ("digits-opl", "--seed", "1"))
    faults = [_train(folder, [*row, "--scale", "small"]) for row in rows]
    fault = next((each for each in faults if each), None)
    fault = fault or _failed(run(["results", "add", str(folder / "runs"), "--to", str(folder / "results")]))
    (folder / "runs" / "digits-opl" / "seed-1").rename(folder / "seed-1")
    there = folder / "results" / "small" / "digits-opl"
    (folder / OTHER / "small" / "digits-opl").mkdir(parents=True)
    (there / "seed-1.json").rename(folder / OTHER / "small" / "digits-opl" / "seed-0.json")
    (folder / "TEXT.md").write_text("<!-- opl results: demo small -->\n<!-- end -->\n")
    return fault


def _exported(folder: Path) -> Ended | None:
    fault = _train(folder, DIGITS) or _train(folder, [*DIGITS, "--seed", "1"])
    for seed, target in (("0", "bundle"), ("1", OTHER)):
        runs = folder / "runs" / DIGITS[0] / f"seed-{seed}"
        fault = fault or _failed(run(["export", str(runs), str(folder / target)]))
    return fault


def _cached(folder: Path) -> Ended | None:
    """A run of pictures in folders, and the cache of the decoded pictures."""
    from ._pictures import domain_folder

    for place, seed in (("data", 0), ("data-other", 1)):
        make_elsewhere(lambda place=place, seed=seed: domain_folder(folder / place, seed=seed))
    fault = _train(folder, [*_domains(folder / "data-other"), "--seed", "1"], out="elsewhere")
    shutil.copytree(folder / "cache", folder / OTHER)
    shutil.rmtree(folder / "cache")
    shutil.rmtree(folder / "elsewhere")
    fault = fault or _train(folder, _domains(folder / "data"), out="elsewhere")
    mine, theirs = (next(place.glob("*/contents.json")).parent for place in (folder / "cache", folder / OTHER))
    theirs.rename(theirs.with_name(mine.name))
    shutil.rmtree(folder / "elsewhere")
    return fault


def _domains(data: Path | str) -> tuple[str, ...]:
    return (
        "domains-erm", "--model.depth", "18", "--epochs", "1", "--weights", "", "--data.root", str(data),
        "--data.target", "b", "--data.num-classes", "3", "--data.size", "16", "--batch-size", "8",
    )  # fmt: skip


def _of(words: Sequence[str]) -> str:
    return f"runs/{words[0]}/seed-0"


_RUN = ("*", "measures/*")
TREES = (
    Tree(
        "finished run", _finished, tuple(f"{_of(DIGITS)}/{each}" for each in _RUN),
        (readers.REPORT, readers.evaluate(_of(DIGITS), "geometry"), readers.ADD, readers.CHECK,
         readers.train_again(DIGITS), readers.export(_of(DIGITS))),
        _of(DIGITS), quick=True,
    ),
    Tree(
        "unfinished run", _unfinished, (f"{_of(DIGITS)}/*",),
        (readers.train(_of(DIGITS), DIGITS, "opl train, resumed"), readers.REPORT, readers.CHECK),
        _of(DIGITS), quick=True,
    ),
    Tree(
        "run before its test", lambda folder: _unfinished(folder, DIGITS, 4), (f"{_of(DIGITS)}/*",),
        (readers.train(_of(DIGITS), DIGITS, "opl train, resumed"),), _of(DIGITS),
    ),
    Tree(
        "noisy run", _noisy, (f"{_of(NOISE)}/noise.*", f"{_of(NOISE)}/measures/*"),
        (readers.REPORT, readers.evaluate(_of(NOISE), "noise"), readers.CHECK, readers.train_again(NOISE)), _of(NOISE),
    ),
    Tree(
        "unfinished noisy run", lambda folder: _unfinished(folder, NOISE, 1), (f"{_of(NOISE)}/*",),
        (readers.train(_of(NOISE), NOISE, "opl train, resumed"),), _of(NOISE),
    ),
    Tree(
        "run that another starts from", _few_shot, tuple(f"{_of(BASE)}/{each}" for each in _RUN),
        (readers.train(_of(AFTER), AFTER, "opl train, after it"), readers.evaluate(_of(BASE), *EPISODES),
         readers.REPORT),
        _of(BASE),
    ),
    Tree(
        "attacked run", _attacked,
        (f"{_of(ROBUST)}/measures/*", f"{_of(ROBUST)}/model.safetensors", f"{_of(ROBUST)}/recipe.json"),
        (readers.evaluate(_of(ROBUST), *ATTACK), readers.CHECK), _of(ROBUST),
    ),
    Tree(
        "table", _reproduced, ("runs/tiny/demo/digits-opl/seed-0/*",), (readers.reproduce("demo"),),
        "runs/tiny/demo/digits-opl/seed-0",
    ),
    Tree("records", _recorded, ("results/small/digits-opl/*",), (readers.WRITE, readers.ADD_AGAIN), "results"),
    Tree("export", _exported, ("bundle/*",), (readers.LOAD, readers.export(_of(DIGITS))), "bundle"),
    Tree("cache", _cached, ("cache/*/*",), (readers.train("runs/domains-erm/seed-0", _domains("{}/data")),), "cache"),
)  # fmt: skip
