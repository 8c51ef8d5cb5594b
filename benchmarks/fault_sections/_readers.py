"""Every command that reads what is damaged, and what can be observed of it."""

import hashlib
import json
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ._process import Ended, run
from ._runs import plain, read_json, sha, snapshot

WORK = "work"
Observe = Callable[[Path, Ended], Any]


@dataclass(frozen=True)
class Reader:
    """A command, and what it makes of a folder: equal observations are equal results."""

    name: str
    words: tuple[str, ...]
    """With `{}` for the folder that holds everything."""
    observe: Observe
    page: str = ""
    """A file in which the command may say what is wrong, besides what it prints."""
    strict: bool = False
    """Whether every damage must be found, not only that which changes a result."""
    call: Callable[[Path], None] | None = None
    """A function in place of the command."""

    def read(self, folder: Path, limit: float) -> Ended:
        """Read the folder."""
        words = [word.replace("{}", str(folder)) for word in self.words]
        call = self.call
        environment = {"OPL_CACHE": str(folder / "cache")}
        function = None if call is None else (lambda: call(folder))
        return run(words, cwd=folder, environment=environment, limit=limit, call=function)

    def text(self, folder: Path, ended: Ended) -> str:
        """All that it says."""
        file = folder / self.page
        return ended.said + (file.read_text(errors="replace") if self.page and file.is_file() else "")


def _state(run: str, *parts: str) -> Observe:
    """What a run folder holds; its parts alone, if some are named."""

    def observe(folder: Path, ended: Ended) -> Any:
        found = snapshot(folder / run)
        return {name: value for name, value in found.items() if not parts or name.split()[0] in parts}

    return observe


def _printed(folder: Path, ended: Ended) -> Any:
    """The JSON that it prints, without times; text is compared as it is."""
    start = min((place for mark in "[{" if (place := ended.said.find(f"{mark}\n")) >= 0), default=-1)
    try:
        return plain(json.JSONDecoder().raw_decode(ended.said[start:])[0]) if start >= 0 else ended.said
    except ValueError:
        return ended.said


def _page(file: str) -> Observe:
    def observe(folder: Path, ended: Ended) -> Any:
        text = (folder / file).read_text(errors="replace") if (folder / file).is_file() else ""
        return hashlib.sha256(re.sub(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d)?", "", text).encode()).hexdigest()

    return observe


def _records(place: str) -> Observe:
    def observe(folder: Path, ended: Ended) -> Any:
        files = sorted((folder / place).rglob("*.json"))
        return {file.relative_to(folder).as_posix(): read_json(file) for file in files}

    return observe


def _files(place: str) -> Observe:
    def observe(folder: Path, ended: Ended) -> Any:
        return {file.name: sha(file) for file in sorted((folder / place).glob("*")) if file.suffix != ".png"}

    return observe


def _code(folder: Path, ended: Ended) -> Any:
    return ended.code


def train(run: str, words: Sequence[str], name: str = "opl train") -> Reader:
    """Train, resume, or read a finished run again."""
    return Reader(name, ("train", *words, "--out", "{}/runs"), _state(run))


def train_again(words: Sequence[str]) -> Reader:
    """`opl train` of a finished run prints its result."""
    return Reader("opl train, finished", ("train", *words, "--out", "{}/runs"), _printed)


def evaluate(run: str, *words: str) -> Reader:
    """Evaluate a finished run; `opl evaluate RUN geometry` also writes the predictions."""

    def observe(folder: Path, ended: Ended) -> Any:
        return (_printed(folder, ended), _state(run, "test")(folder, ended) if words[0] == "geometry" else {})

    return Reader(f"opl evaluate {words[0]}", ("evaluate", f"{{}}/{run}", *words), observe)


REPORT = Reader("opl report", ("report", "{}/runs"), _page("runs/report.html"), page="runs/report.html")
CHECK = Reader("opl check", ("check", "{}/runs"), _code, strict=True)
ADD = Reader("opl results add", ("results", "add", "{}/runs", "--to", "{}/new"), _records("new"))
ADD_AGAIN = Reader("opl results add, again", ("results", "add", "{}/runs", "--to", "{}/results"), _records("results"))
WRITE = Reader(
    "opl results write", ("results", "write", "--records", "{}/results", "--file", "{}/TEXT.md"), _page("TEXT.md"),
    page="TEXT.md",
)  # fmt: skip


def export(run: str) -> Reader:
    """Export a finished run."""
    return Reader("opl export", ("export", f"{{}}/{run}", "{}/bundle-new"), _files("bundle-new"))


def reproduce(item: str) -> Reader:
    """The table of an item whose runs are finished."""
    words = ("reproduce", item, "--scale", "tiny", "--seeds", "1", "--out", "{}/runs", "--json")
    return Reader("opl reproduce", words, _printed, page=f"runs/tiny/{item}/report.html")


def _load(folder: Path) -> None:
    """Print the sum of the outputs of an exported network."""
    import torch

    from opl.experiments.models import from_pretrained

    network = from_pretrained(folder / "bundle")
    with torch.no_grad():
        print(float(network(torch.linspace(0, 1, 64).reshape(1, 1, 8, 8)).logits.double().abs().sum()))


LOAD = Reader("from_pretrained", (), _printed, call=_load)


def fresh_copy(pristine: Path, folder: Path) -> None:
    """Replace a folder by a copy of another; the path stays the same, since pages name it."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(pristine, folder, symlinks=True)
