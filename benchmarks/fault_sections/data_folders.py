"""Odd data folders: tables, pictures, idx files, pickles, noise matrices and weights, read by training on them.

A case that must be refused is silent if training succeeds without a word. A case that may be right has as many images
and classes as were written, and where nothing of it matters, the very numbers of the plain folder.
"""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ._data_case import DataCase
from ._data_files import file_cases
from ._data_images import image_cases
from ._data_pictures import picture_cases
from ._data_tables import plain_table, table_cases
from ._data_weights import weight_cases
from ._pictures import domain_folder
from ._process import Ended, make_elsewhere, run
from ._runs import epochs, read_json
from ._tally import Outcome, Tally, common_fault

DATA_LIMIT = 60.0  # seconds; the plain folder takes a few
DOMAINS = (
    "train", "domains-erm", "--model.depth", "18", "--epochs", "1", "--weights", "", "--data.target", "b",
    "--data.num-classes", "3", "--data.size", "16", "--batch-size", "8",
)  # fmt: skip
MNIST = ("train", "mnist-ce", "--epochs", "1", "--data.val", "4", "--batch-size", "8")


def data_folders(scratch: Path, tally: Tally, share: float) -> None:
    """Make every folder, and train on it."""
    usual = {kind: _usual(scratch / f"usual-{kind}", kind, tally) for kind in ("pictures", "table")}
    for number, case in enumerate(_cases()):
        if number % max(1, round(1 / share / 2)):
            continue
        folder = scratch / str(number)
        data = folder / "data"
        data.mkdir(parents=True)
        made = make_elsewhere(lambda case=case, data=data: case.make(data))
        ended = _read(case, folder, data)
        outcome = _judge(case, ended, folder, made, usual)
        tally.add(outcome, f"{case.reader}: {case.name}", ended)
        shutil.rmtree(folder, ignore_errors=True)


def _cases() -> Iterator[DataCase]:
    yield from table_cases()
    yield from image_cases()
    yield from picture_cases()
    yield from file_cases()
    yield from weight_cases()


def _usual(folder: Path, kind: str, tally: Tally) -> list[Any]:
    """The numbers of the plain folder."""
    data = folder / "data"
    data.mkdir(parents=True)
    make_elsewhere(lambda: plain_table(data) if kind == "table" else domain_folder(data, each=4))
    ended = run([*DOMAINS, "--data.root", str(data), "--out", str(folder / "out")], environment=_environment(folder))
    if ended.code:
        tally.add("lost", f"the plain {kind}", ended)
    return epochs(folder / "out" / "domains-erm" / "seed-0")


def _environment(folder: Path) -> dict[str, str]:
    return {
        "OPL_CACHE": str(folder / "cache"),
        "HF_HOME": str(folder / "hub"),
        "HF_DATASETS_CACHE": str(folder / "hub"),
    }


def _read(case: DataCase, folder: Path, data: Path) -> Ended:
    """Train on a folder."""
    out = ("--out", str(folder / "out"), *case.flags)
    words: tuple[str, ...] = ()
    call: Callable[[], None] | None = None
    if case.reader == "noise":
        call = lambda: _noise(next(data.iterdir()))  # noqa: E731
    elif case.reader == "weights":
        make_elsewhere(lambda: domain_folder(folder / "pictures", each=4))
        given = [*DOMAINS]
        given[given.index("--weights") + 1] = str(next(data.iterdir(), data / "missing.safetensors"))
        words = (*given, "--data.root", str(folder / "pictures"), *out)
    elif case.reader == "mnist":
        words = (*MNIST, "--data.root", str(data), *out)
    elif case.reader in ("domains", "table"):
        words = (*DOMAINS, "--data.root", str(data), *out)
    else:
        words = ("train", case.reader, "--epochs", "1", "--data.root", str(data), *out)
    return run(words, cwd=folder, environment=_environment(folder), limit=DATA_LIMIT, call=call)


def _noise(file: Path) -> None:
    from opl.experiments.data import NoiseMatrix

    print(NoiseMatrix(path=str(file)).matrix(("a", "b", "c")).tolist())


def _judge(case: DataCase, ended: Ended, folder: Path, made: str, usual: dict[str, list[Any]]) -> Outcome:
    if fault := common_fault(ended):
        return fault
    if ended.code:
        return "refused" if ended.code in (1, 2) and "opl:" in ended.said else "silent"
    if "opl: warning:" in ended.said:
        return "refused"
    if case.expect == "refused":
        return "silent"
    splits = next((read_json(file) for file in folder.glob("out/*/*/splits.json")), None)
    if case.expect == "same":
        kind = "table" if case.reader == "table" else "pictures"
        return "right" if epochs(folder / "out" / "domains-erm" / "seed-0") == usual[kind] else "silent"
    if case.expect == "right" and made.isdigit() and splits is not None:
        total = splits["train"] + len(splits["val"]) + splits["test"]
        return "right" if total == int(made) else "silent"
    return "right"
