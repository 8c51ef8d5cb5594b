"""Every kind of file that `opl` writes, damaged in every way, and read by every command that reads it.

A case is right if the result is that of the undamaged folder, because the file does not matter to the command or was
repaired. It is refused if the command fails or warns and names the file, or marks the run as unusable on the page.
Otherwise it is a fault: a different result without a message is silent, or lost if epochs are missing.
"""

import hashlib
import json
import re
import shutil
import signal
from collections.abc import Callable
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from _damages import DAMAGES
from _process import Ended, call_in_child, run, start
from _run_files import checksum, epochs, read_json, snapshot, without_times
from _tally import Tally
from data_folders import DOMAINS, domain_folder
from kills import ATTACK

LIMIT = 30.0  # seconds; on undamaged folders the same commands take about one
KINDS_PER_FILE = 7  # kinds of damage per file and reader, in turn
LISTS_OF_SUMS = ("done", "sums.json")  # if one of these is wrong, the files that it lists look wrong
REDUNDANT = (".sha256", "owner.json")  # `opl check` may miss a checksum that is stored elsewhere too, or a lock
OUTPUTS = (".lock", "report.html", "log.txt", ".png")
MARKS = (
    "damaged", "unfinished", "refused", "not added", "cannot be read", "cannot be used", "left out", "in use",
    "not a finished run",
)  # fmt: skip


@dataclass(frozen=True)
class Reader:
    """A command, and what it makes of a folder: equal observations are equal results."""

    name: str
    argv: tuple[str, ...]
    """`{}` stands for the folder that holds everything."""
    observe: Callable[[Path, Ended], Any]
    page: str = ""
    """A file in which the command may report a problem, besides its output."""
    strict: bool = False
    """Whether every damage must be reported, not only damage that changes a result."""
    call: Callable[[Path], None] | None = None

    def read(self, folder: Path) -> tuple[Ended, str]:
        """Read the folder; returns how the command ended, and everything that it said."""
        argv = [word.replace("{}", str(folder)) for word in self.argv]
        call = (lambda: self.call(folder)) if self.call else None
        ended = run(argv, cwd=folder, environment={"OPL_CACHE": str(folder / "cache")}, limit=LIMIT, call=call)
        file = folder / self.page
        return ended, ended.output + (file.read_text(errors="replace") if self.page and file.is_file() else "")


def _printed(folder: Path, ended: Ended) -> Any:
    """The JSON that a command prints, without times; other text as it is."""
    begin = min((index for mark in "[{" if (index := ended.output.find(f"{mark}\n")) >= 0), default=-1)
    try:
        return without_times(json.JSONDecoder().raw_decode(ended.output[begin:])[0]) if begin >= 0 else ended.output
    except ValueError:
        return ended.output


def _page(file: str) -> Callable[[Path, Ended], Any]:
    def observe(folder: Path, _: Ended) -> str:
        text = (folder / file).read_text(errors="replace") if (folder / file).is_file() else ""
        return hashlib.sha256(re.sub(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d)?", "", text).encode()).hexdigest()

    return observe


def _records(place: str) -> Callable[[Path, Ended], Any]:
    return lambda folder, _: {str(file): read_json(file) for file in sorted((folder / place).rglob("*.json"))}


def _train(argv: tuple[str, ...]) -> Reader:
    return Reader("opl train", ("train", *argv, "--out", "{}/runs"), lambda folder, _: snapshot(folder / _run(argv)))


def _evaluate(argv: tuple[str, ...], *protocol: str) -> Reader:
    return Reader(f"opl evaluate {protocol[0]}", ("evaluate", f"{{}}/{_run(argv)}", *protocol), _printed)


def _export(argv: tuple[str, ...]) -> Reader:
    def observe(folder: Path, _: Ended) -> Any:
        return {file.name: checksum(file) for file in sorted((folder / "new").glob("*")) if file.suffix != ".png"}

    return Reader("opl export", ("export", f"{{}}/{_run(argv)}", "{}/new"), observe)


def _load(folder: Path) -> None:
    """Print the sum of the outputs of an exported network."""
    import torch

    from opl.experiments.models import from_pretrained

    network = from_pretrained(folder / "bundle")
    with torch.no_grad():
        print(float(network(torch.linspace(0, 1, 64).reshape(1, 1, 8, 8)).logits.double().abs().sum()))


def _run(argv: tuple[str, ...]) -> str:
    return f"runs/{argv[0]}/seed-0"


DIGITS = ("digits-opl", "--scale", "small", "--epochs", "4", "--data.val", "100", "--selection", "best-val")
NOISE = ("cifar10-noisy-uniform-tl-opl", "--scale", "tiny")
BASE, AFTER = ("cifar-fs-rfs", "--scale", "tiny"), ("cifar-fs-rfs-distilled", "--scale", "tiny")
ROBUST = ("cifar10-robust-madry-opl", "--scale", "tiny")
DOMAIN = (*DOMAINS[1:], "--data.root", "{}/data")
EPISODES = ("episodes", "--episodes", "20")
REPORT = Reader("opl report", ("report", "{}/runs"), _page("runs/report.html"), page="runs/report.html")
CHECK = Reader("opl check", ("check", "{}/runs"), lambda _, ended: ended.code, strict=True)
FINISHED = Reader("opl train, finished", ("train", *DIGITS, "--out", "{}/runs"), _printed)
ADD = Reader("opl results add", ("results", "add", "{}/runs", "--to", "{}/new"), _records("new"))
ADD_AGAIN = Reader("opl results add, again", ("results", "add", "{}/runs", "--to", "{}/results"), _records("results"))
WRITE = Reader(
    "opl results write", ("results", "write", "--records", "{}/results", "--file", "{}/TEXT.md"), _page("TEXT.md"),
    page="TEXT.md",
)  # fmt: skip
TABLE = ("reproduce", "demo", "--scale", "tiny", "--seeds", "1", "--out", "{}/runs")
REPRODUCE = Reader("opl reproduce", (*TABLE, "--json"), _printed, page="runs/tiny/demo/report.html")
LOAD = Reader("from_pretrained", (), _printed, call=_load)


class Tree:
    """A folder of runs, records, an export or a cache, made by the code under test, and its readers."""

    def __init__(self, name: str, make: Callable[[Path], None], patterns: tuple[str, ...], *readers: Reader, home: str):
        self.name, self.make, self.patterns, self.readers, self.home = name, make, patterns, readers, home

    def files(self, folder: Path) -> list[str]:
        """The files to damage; the same files of another run are below `other`."""
        files = [file for pattern in self.patterns for file in sorted(folder.glob(f"{self.home}/{pattern}"))]
        names = [str(file.relative_to(folder)) for file in files if file.is_file()]
        return list(dict.fromkeys(name for name in names if not name.endswith(OUTPUTS)))


def _opl(folder: Path, *argv: str, fresh: bool = False) -> None:
    filled = [word.replace("{}", str(folder)) for word in argv]
    ended = run(filled, cwd=folder, environment={"OPL_CACHE": str(folder / "cache")}, fresh=fresh)
    if ended.code or ended.hung:
        raise RuntimeError(f"opl {' '.join(filled)}: {ended.output}")


def _with_other(argv: tuple[str, ...], *protocol: str) -> Callable[[Path], None]:
    """A finished run, and another seed of it; both evaluated if a protocol is given."""

    def make(folder: Path) -> None:
        for seed, out in (("0", "runs"), ("1", "elsewhere")):
            _opl(folder, "train", *argv, "--seed", seed, "--out", f"{{}}/{out}")
            if protocol:
                _opl(folder, "evaluate", f"{{}}/{out}/{argv[0]}/seed-{seed}", *protocol)
        (folder / "elsewhere" / argv[0] / "seed-1").rename(folder / "other")

    return make


def _unfinished(argv: tuple[str, ...], after: int) -> Callable[[Path], None]:
    """A run that was killed after some epochs, and another seed of it."""

    def saved(there: Path) -> bool:
        try:
            newer = (there / "checkpoint.pt.sha256").stat().st_mtime_ns >= (there / "metrics.jsonl").stat().st_mtime_ns
        except OSError:
            return False
        return newer and len(epochs(there)) >= after

    def make(folder: Path) -> None:
        for seed in ("0", "1"):
            there = folder / "runs" / argv[0] / f"seed-{seed}"
            while not there.is_dir() or (there / "done").exists():  # on a fast machine a kill may come too late
                shutil.rmtree(there, ignore_errors=True)
                process = start(["train", *argv, "--seed", seed, "--out", str(folder / "runs")])
                process.wait_until(lambda there=there: saved(there))
                process.signal(signal.SIGKILL)
                process.wait()
        there.rename(folder / "other")

    return make


def _attacked(folder: Path) -> None:
    """A run whose attack was killed, so that a part of a measure is left."""
    _with_other(ROBUST)(folder)
    there = folder / _run(ROBUST)
    process = start(["evaluate", str(there), *ATTACK])
    process.wait_until(lambda: any(there.glob("measures/*.part.npz")))
    process.signal(signal.SIGKILL)
    process.wait()


def _reproduced(folder: Path) -> None:
    _opl(folder, *TABLE, fresh=True)
    _with_other(("digits-opl", "--scale", "tiny"))(folder)


def _recorded(folder: Path) -> None:
    for row in (("digits-ce",), ("digits-opl",), ("digits-opl", "--seed", "1")):
        _opl(folder, "train", *row, "--scale", "small", "--out", "{}/runs")
    _opl(folder, "results", "add", "{}/runs", "--to", "{}/results")
    (folder / "runs" / "digits-opl" / "seed-1").rename(folder / "seed-1")
    (folder / "other" / "small" / "digits-opl").mkdir(parents=True)
    other = folder / "other" / "small" / "digits-opl" / "seed-0.json"
    (folder / "results" / "small" / "digits-opl" / "seed-1.json").rename(other)
    (folder / "TEXT.md").write_text("<!-- opl results: demo small -->\n<!-- end -->\n")


def _exported(folder: Path) -> None:
    _with_other(DIGITS)(folder)
    (folder / "other").rename(folder / "runs" / DIGITS[0] / "seed-1")
    for seed, target in (("0", "bundle"), ("1", "other")):
        _opl(folder, "export", f"{{}}/runs/{DIGITS[0]}/seed-{seed}", f"{{}}/{target}")


def _cached(folder: Path) -> None:
    """The decoded images of a folder, and those of another folder under its name."""
    for place, seed in (("other-data", 1), ("data", 0)):
        call_in_child(lambda place=place, seed=seed: domain_folder(folder / place, seed=seed))
        _opl(folder, "train", *DOMAINS[1:], "--data.root", f"{{}}/{place}", "--out", f"{{}}/elsewhere-{seed}")
        if seed:
            (folder / "cache").rename(folder / "other")
    mine, other = (next(place.glob("*/*")).parent for place in (folder / "cache", folder / "other"))
    other.rename(other.with_name(mine.name))


TREES = (
    Tree(
        "finished run", _with_other(DIGITS), ("*", "measures/*"), REPORT, _evaluate(DIGITS, "geometry"), ADD, CHECK,
        FINISHED, _export(DIGITS), home=_run(DIGITS),
    ),
    Tree("unfinished run", _unfinished(DIGITS, 3), ("*",), _train(DIGITS), REPORT, CHECK, home=_run(DIGITS)),
    Tree("run before its test", _unfinished(DIGITS, 4), ("*",), _train(DIGITS), home=_run(DIGITS)),
    Tree(
        "noisy run", _with_other(NOISE, "noise"), ("noise.*", "measures/*"), REPORT, _evaluate(NOISE, "noise"), CHECK,
        home=_run(NOISE),
    ),
    Tree("unfinished noisy run", _unfinished(NOISE, 1), ("*",), _train(NOISE), home=_run(NOISE)),
    Tree(
        "run that another run starts from", _with_other(BASE, *EPISODES), ("*", "measures/*"), _train(AFTER),
        _evaluate(BASE, *EPISODES), REPORT, home=_run(BASE),
    ),
    Tree(
        "attacked run", _attacked, ("measures/*", "model.safetensors", "recipe.json"), _evaluate(ROBUST, *ATTACK),
        CHECK, home=_run(ROBUST),
    ),
    Tree("table", _reproduced, ("*",), REPRODUCE, home="runs/tiny/demo/digits-opl/seed-0"),
    Tree("records", _recorded, ("small/digits-opl/*",), WRITE, ADD_AGAIN, home="results"),
    Tree("export", _exported, ("*",), LOAD, _export(DIGITS), home="bundle"),
    Tree("cache", _cached, ("*/*",), _train(DOMAIN), home="cache"),
)  # fmt: skip


def corruptions(scratch: Path, tally: Tally, share: float) -> None:
    """Damage every file and read it; each tree is made once."""
    for number, tree in enumerate(TREES[: 2 if share < 0.1 else None]):
        pristine, folder = scratch / str(number) / "pristine", scratch / str(number) / "work"
        pristine.mkdir(parents=True)
        tree.make(pristine)
        kinds = cycle(DAMAGES)
        pairs = [(file, reader) for file in tree.files(pristine) for reader in tree.readers]
        cases = [(*pair, kind) for pair in pairs for kind in islice(kinds, KINDS_PER_FILE)]
        expected: dict[str, tuple[Any, str]] = {}
        for file, reader, kind in cases[:: max(1, round(1 / share))]:
            _copy(pristine, folder)
            if reader.name not in expected:
                ended, text = reader.read(folder)
                expected[reader.name] = reader.observe(folder, ended), text
                if ended.code or ended.fault:
                    tally.add(ended.fault or "lost", f"{tree.name}, undamaged: {reader.name}", ended)
                _copy(pristine, folder)
            before = (folder / file).read_bytes()
            DAMAGES[kind](folder / file, folder / file.replace(tree.home, "other", 1))
            damaged = folder / file
            if damaged.is_file() and not damaged.is_symlink() and damaged.read_bytes() == before:
                continue  # this kind of damage does not apply to the file
            ended, text = reader.read(folder)
            outcome = _judge(reader, folder, pristine, file, ended, text, *expected[reader.name])
            tally.add(outcome, f"{tree.name}: {file}, {kind}: {reader.name}", ended)


def _copy(pristine: Path, folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(pristine, folder, symlinks=True)


def _judge(
    reader: Reader, folder: Path, pristine: Path, file: str, ended: Ended, text: str, expected: Any, usual: str
) -> str:
    if ended.fault:
        return ended.fault
    if (reader.page or reader.strict) and _lacks_only_the_end(folder / file, pristine / file):
        return "right"
    name = Path(file).name.removesuffix(".sha256")  # a message may name the file that a checksum belongs to
    named = text.count(name) > usual.count(name)
    marked = any(text.count(mark) > usual.count(mark) for mark in MARKS)
    if reader.strict:
        found = ended.code and (named or name in LISTS_OF_SUMS)
        return "refused" if found else "right" if file.endswith(REDUNDANT) else "silent"
    observed = reader.observe(folder, ended)
    if observed == expected and not ended.code:
        return "right"
    if named or (marked and (reader.page or ended.code)):
        return "refused"
    both = isinstance(observed, dict) and isinstance(expected, dict)
    return "lost" if both and observed.get("epochs") != expected.get("epochs") else "silent"


def _lacks_only_the_end(file: Path, whole: Path) -> bool:
    """Whether an unfinished run lacks only its last epochs, as if it had been killed earlier."""
    if file.name != "metrics.jsonl" or not file.is_file() or (file.parent / "done").exists():
        return False
    return whole.read_bytes().startswith(file.read_bytes().rpartition(b"\n")[0])
