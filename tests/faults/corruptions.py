"""Every kind of file that `opl` writes, damaged in every way, and read by every command that reads it.

A case is right if the result is that of the undamaged folder, because the file does not matter to the command or was
repaired. It is refused if the command fails or warns and names the file, or marks the run as unusable on the page.
Otherwise it is a fault: a different result without a message is silent, or lost if epochs are missing.
"""

import json
import os
import re
import shutil
import signal
from collections.abc import Callable, Iterator
from functools import cache
from itertools import cycle, islice
from pathlib import Path
from typing import Any, NamedTuple

from _contents import domains, write
from _files import DAMAGES, checksum, epochs, read_json, snapshot, without_times
from _process import Ended, call, run, start
from campaign import Case, Verdict
from data_folders import DOMAINS
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


class Reader(NamedTuple):
    """A command, and what it makes of a folder: equal observations are equal results."""

    argv: str
    observe: Callable[[Path, Ended], Any]
    page: str = ""
    """A file in which the command may report a problem, besides its output."""
    strict: bool = False
    """Whether every damage must be reported, not only damage that changes a result."""
    function: Callable[[], object] | None = None

    def read(self, folder: Path) -> tuple[Ended, str]:
        """Read the folder; returns how the command ended, and everything that it said."""
        ended = call(self.argv, folder, limit=LIMIT, function=self.function)
        ended = ended._replace(output=ended.output.replace(str(folder), "."))
        return ended, ended.output + (_text(folder / self.page) if self.page else "")


def _text(file: Path) -> str:
    """A page without times."""
    text = file.read_text(errors="replace") if file.is_file() else ""
    return re.sub(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d)?", "", text)


def _printed(folder: Path, ended: Ended) -> Any:
    """The JSON that a command prints, without times; other text as it is."""
    begin = min((index for mark in "[{" if (index := ended.output.find(f"{mark}\n")) >= 0), default=-1)
    try:
        return without_times(json.JSONDecoder().raw_decode(ended.output[begin:])[0]) if begin >= 0 else ended.output
    except ValueError:
        return ended.output


def _page(argv: str, file: str) -> Reader:
    return Reader(argv, lambda folder, _: _text(folder / file), page=file)


def _records(to: str) -> Reader:
    def observe(folder: Path, _: Ended) -> Any:
        return {str(file.relative_to(folder)): read_json(file) for file in sorted((folder / to).rglob("*.json"))}

    return Reader(f"results add runs --to {to}", observe)


def _train(argv: str) -> Reader:
    return Reader(f"train {argv} --out runs", lambda folder, _: snapshot(folder / "runs" / argv.split()[0] / "seed-0"))


def _export(folder: Path, _: Ended) -> Any:
    return {file.name: checksum(file) for file in sorted((folder / "new").glob("*")) if file.suffix != ".png"}


def _load() -> None:
    """Print the sum of the outputs of an exported network."""
    import torch

    from opl.experiments.models import from_pretrained

    with torch.no_grad():
        output = from_pretrained(Path("bundle"))(torch.linspace(0, 1, 64).reshape(1, 1, 8, 8))
    print(float(output.logits.double().abs().sum()))


DIGITS = "digits-opl --scale small --epochs 4 --data.val 100 --selection best-val"
NOISY, FEW_SHOT, ROBUST = "cifar10-noisy-uniform-tl-opl", "cifar-fs-rfs", "cifar10-robust-madry-opl"
EPISODES, GEOMETRY = "episodes --episodes 20", f"evaluate runs/{DIGITS.split()[0]}/seed-0 geometry"
TABLE = "reproduce demo --scale tiny --seeds 1 --out runs"
REPORT, CHECK = _page("report runs", "runs/report.html"), Reader("check runs", lambda _, e: e.code, strict=True)
RESUME, EXPORT = _train(DIGITS), Reader("export runs/digits-opl/seed-0 new", _export)


class Tree(NamedTuple):
    """A folder of runs, records, an export or a cache; the same files of another run are below `other`."""

    home: str
    """Where the files are that are damaged."""
    files: str
    readers: tuple[Reader, ...]
    steps: str
    """How it is made, one step per line: `mv FROM TO`, `write`, `images`, or a command of `opl`. `kill N` before a
    command kills it after N epochs, `kill part` when a part of a measure is written; `fresh` starts a new process."""


def _two(argv: str, protocol: str = "") -> str:
    """A finished run, and another seed of it; both evaluated if a protocol is given."""
    lines, recipe = [], argv.split()[0]
    for seed, out in ((0, "runs"), (1, "elsewhere")):
        lines += [f"train {argv} --seed {seed} --out {out}"]
        lines += [f"evaluate {out}/{recipe}/seed-{seed} {protocol}"] * bool(protocol)
    return "\n".join([*lines, f"mv elsewhere/{recipe}/seed-1 other"])


def _killed(argv: str, after: int) -> str:
    """A run that was killed after some epochs, and another seed of it."""
    lines = [f"kill {after} train {argv} --seed {seed} --out runs" for seed in (0, 1)]
    return "\n".join([*lines, f"mv runs/{argv.split()[0]}/seed-1 other"])


TREES = {
    "finished run": Tree(
        "runs/digits-opl/seed-0", "* measures/*",
        (REPORT, Reader(GEOMETRY, _printed), _records("new"), CHECK, Reader(RESUME.argv, _printed), EXPORT),
        _two(DIGITS),
    ),
    "unfinished run": Tree(
        "runs/digits-opl/seed-0", "*", (RESUME, REPORT, CHECK), _killed(DIGITS, 3)
    ),
    "run before its test": Tree("runs/digits-opl/seed-0", "*", (RESUME,), _killed(DIGITS, 4)),
    "noisy run": Tree(
        f"runs/{NOISY}/seed-0", "noise.* measures/*",
        (REPORT, Reader(f"evaluate runs/{NOISY}/seed-0 noise", _printed), CHECK),
        _two(f"{NOISY} --scale tiny", "noise"),
    ),
    "unfinished noisy run": Tree(
        f"runs/{NOISY}/seed-0", "*", (_train(f"{NOISY} --scale tiny"),),
        _killed(f"{NOISY} --scale tiny", 1),
    ),
    "run that another run starts from": Tree(
        f"runs/{FEW_SHOT}/seed-0", "* measures/*",
        (
            _train(f"{FEW_SHOT}-distilled --scale tiny"),
            Reader(f"evaluate runs/{FEW_SHOT}/seed-0 {EPISODES}", _printed), REPORT,
        ),
        _two(f"{FEW_SHOT} --scale tiny", EPISODES),
    ),
    "attacked run": Tree(
        f"runs/{ROBUST}/seed-0", "measures/* model.safetensors recipe.json",
        (Reader(f"evaluate runs/{ROBUST}/seed-0 {ATTACK}", _printed), CHECK),
        f"{_two(f'{ROBUST} --scale tiny')}\nkill part evaluate runs/{ROBUST}/seed-0 {ATTACK}",
    ),
    "table": Tree(
        "runs/tiny/demo/digits-opl/seed-0", "*",
        (Reader(f"{TABLE} --json", _printed, page="runs/tiny/demo/report.html"),),
        f"fresh {TABLE}\n{_two('digits-opl --scale tiny')}",
    ),
    "records": Tree(
        "results", "small/digits-opl/*",
        (_page("results write --records results --file TEXT.md", "TEXT.md"), _records("results")),
        "train digits-ce --scale small --out runs\ntrain digits-opl --scale small --out runs\n"
        "train digits-opl --seed 1 --scale small --out runs\nresults add runs --to results\n"
        "mv runs/digits-opl/seed-1 seed-1\nmv results/small/digits-opl/seed-1.json other/small/digits-opl/seed-0.json\n"
        "write",
    ),
    "export": Tree(
        "bundle", "*", (Reader("", _printed, function=_load), EXPORT),
        f"train {DIGITS} --out runs\ntrain {DIGITS} --seed 1 --out runs\nexport runs/digits-opl/seed-0 bundle\n"
        "export runs/digits-opl/seed-1 other",
    ),
    "cache": Tree(
        "cache", "*/*", (_train(f"{DOMAINS.removeprefix('train ')} --data.root data"),),
        f"images other-data 1\n{DOMAINS} --data.root other-data --out elsewhere-1\nmv cache other\n"
        f"images data 0\n{DOMAINS} --data.root data --out elsewhere-0\nmv other/* other/{{cache}}",
    ),
}  # fmt: skip


def _make(folder: Path, steps: str) -> None:
    for step in steps.splitlines():
        verb, _, rest = step.partition(" ")
        if verb == "mv":
            source, target = rest.replace("{cache}", next((folder / "cache").glob("*/*"), folder).parent.name).split()
            (folder / target).parent.mkdir(parents=True, exist_ok=True)
            next(path for path in folder.glob(source) if path.is_dir() or "*" not in source).rename(folder / target)
        elif verb == "write":
            (folder / "TEXT.md").write_text("<!-- opl results: demo small -->\n<!-- end -->\n")
        elif verb == "images":
            name, seed = rest.split()
            write(folder / name, domains(int(seed), per_class=6))
        elif verb == "kill":
            when, _, argv = rest.partition(" ")
            _kill(folder, argv, when)
        elif (ended := run(rest if verb == "fresh" else step, folder, fresh=verb == "fresh")).code or ended.hung:
            raise RuntimeError(f"opl {step}: {ended.output}")


def _kill(folder: Path, argv: str, when: str) -> None:
    """Kill a command when it has written its part of a measure, or a checkpoint after some epochs."""
    words = argv.split()
    there = folder / "runs" / words[1] / f"seed-{words[words.index('--seed') + 1]}" if "--seed" in words else folder

    def reached() -> bool:
        if when == "part":
            return any(folder.rglob("measures/*.part.npz"))
        try:
            newer = (there / "checkpoint.pt.sha256").stat().st_mtime_ns >= (there / "metrics.jsonl").stat().st_mtime_ns
        except OSError:
            return False
        return newer and len(epochs(there)) >= int(when)

    while True:
        process = start(argv, folder)
        process.wait_until(reached)
        process.signal(signal.SIGKILL)
        process.wait()
        if when == "part" or not (there / "done").exists():
            return
        shutil.rmtree(there)  # on a fast machine a kill may come too late


def cases(scratch: Path, share: float) -> Iterator[Case]:
    """Damage every file and read it; each tree is made once."""
    for name, tree in list(TREES.items())[: 2 if share < 0.1 else None]:
        pristine = scratch / name
        pristine.mkdir()
        _make(pristine, tree.steps)
        files = [file for pattern in tree.files.split() for file in sorted(pristine.glob(f"{tree.home}/{pattern}"))]
        names = dict.fromkeys(str(file.relative_to(pristine)) for file in files if file.is_file())
        kinds, expect = cycle(DAMAGES), cache(_expect)
        for file in (file for file in names if not file.endswith(OUTPUTS)):
            for reader in tree.readers:
                for kind in islice(kinds, KINDS_PER_FILE):
                    if _applies(kind, scratch / "trial", pristine / file, _other(pristine, tree, file)):
                        attempt = lambda sandbox, p=pristine, t=tree, f=file, r=reader, k=kind, e=expect: (  # noqa: E731
                            _attempt(sandbox, p, t, f, r, k, *e(r, p, sandbox.with_name(f"undo-{os.getpid()}")))
                        )
                        yield Case(f"{name}: {file}, {kind}: opl {reader.argv}", attempt)


def _other(folder: Path, tree: Tree, file: str) -> Path:
    return folder / file.replace(tree.home, "other", 1)


def _applies(kind: str, trial: Path, file: Path, other: Path) -> bool:
    """Whether this kind of damage changes the file."""
    shutil.rmtree(trial, ignore_errors=True)
    trial.mkdir()
    copy = trial / file.name
    shutil.copyfile(file, copy)
    DAMAGES[kind](copy, other)
    return not copy.is_file() or copy.is_symlink() or copy.read_bytes() != file.read_bytes()


def _expect(reader: Reader, pristine: Path, folder: Path) -> tuple[Any, str]:
    """What the reader makes of the undamaged folder, and what it says."""
    ended, text = reader.read(Path(shutil.copytree(pristine, folder, symlinks=True)))
    observed = reader.observe(folder, ended)
    shutil.rmtree(folder)
    if ended.code or ended.fault:
        raise RuntimeError(f"opl {reader.argv} fails on the undamaged folder: {ended.output}")
    return observed, text


def _attempt(
    folder: Path, pristine: Path, tree: Tree, file: str, reader: Reader, kind: str, expected: Any, usual: str
) -> Verdict:
    shutil.copytree(pristine, folder, symlinks=True, dirs_exist_ok=True)
    DAMAGES[kind](folder / file, _other(folder, tree, file))
    ended, text = reader.read(folder)
    if ended.fault:
        return Verdict(ended.fault, ended=ended)
    if (reader.page or reader.strict) and _lacks_only_the_end(folder / file, pristine / file):
        return Verdict("right", ended=ended)
    name = Path(file).name.removesuffix(".sha256")  # a message may name the file that a checksum belongs to
    named = text.count(name) > usual.count(name)
    marked = any(text.count(mark) > usual.count(mark) for mark in MARKS)
    if reader.strict:
        reported = ended.code and (named or name in LISTS_OF_SUMS)
        return Verdict("refused" if reported else "right" if file.endswith(REDUNDANT) else "silent", ended=ended)
    observed = reader.observe(folder, ended)
    if observed == expected and not ended.code:
        return Verdict("right", ended=ended)
    if named or (marked and (reader.page or ended.code)):
        return Verdict("refused", ended=ended)
    both = isinstance(observed, dict) and isinstance(expected, dict)
    lost = both and observed.get("epochs") != expected.get("epochs")
    return Verdict("lost" if lost else "silent", ended=ended)


def _lacks_only_the_end(file: Path, whole: Path) -> bool:
    """Whether what is unfinished lacks only its end, as if it had been killed earlier.

    A run that was stopped in its first epoch has a checkpoint and no metrics; training restores them from a checkpoint.
    An attack that was stopped in its first batch has no part, and starts again.
    """
    if file.name.endswith(".part.npz"):
        return not os.path.lexists(file)
    if file.name != "metrics.jsonl" or (file.parent / "done").exists():
        return False
    if not os.path.lexists(file):
        return True
    if not file.is_file():
        return False
    return whole.read_bytes().startswith(file.read_bytes().rpartition(b"\n")[0])
