"""Every kind of file that `opl` writes, damaged in every way, and read by every command that reads it.

A case is right if the result is that of the undamaged folder, because the file does not matter to the command or was
repaired. It is refused if the command fails or warns and names the file, or marks the run as unusable on the page.
Otherwise it is a fault: a different result without a message is silent, or lost if epochs are missing.
"""

import json
import re
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import cycle, islice
from pathlib import Path
from typing import Any, NamedTuple

from _files import DAMAGES, checksum, damage, domains, epochs, read_json, snapshot, without_times, write
from _process import Ended, call, prepare, start
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


def _make_two(folder: Path, argv: str, protocol: str = "", stop: int = 0) -> None:
    """A run, and another seed of it in `other`; both evaluated, or killed after some epochs."""
    runs = folder / "runs" / argv.split()[0]
    for seed in (0, 1):
        if stop:
            _kill_after(folder, f"train {argv} --seed {seed} --out runs", runs / f"seed-{seed}", stop)
        else:
            prepare(f"train {argv} --seed {seed} --out runs", folder)
        if protocol:
            prepare(f"evaluate runs/{argv.split()[0]}/seed-{seed} {protocol}", folder)
    (runs / "seed-1").rename(folder / "other")


def _kill_after(folder: Path, argv: str, run_folder: Path, stop: int) -> None:
    """Kill a training when it has saved a checkpoint after some epochs."""
    checkpoint, metrics = run_folder / "checkpoint.pt.sha256", run_folder / "metrics.jsonl"

    def reached() -> bool:
        saved = checkpoint.exists() and checkpoint.stat().st_mtime_ns >= metrics.stat().st_mtime_ns
        return saved and len(epochs(run_folder)) >= stop

    _kill(folder, argv, reached)
    if (run_folder / "done").exists():  # on a fast machine a kill may come too late
        shutil.rmtree(run_folder)
        _kill_after(folder, argv, run_folder, stop)


def _kill(folder: Path, argv: str, reached: Callable[[], bool]) -> None:
    process = start(argv, folder)
    process.wait_until(reached)
    process.signal(signal.SIGKILL)
    process.wait()


def _make_attacked(folder: Path) -> None:
    """A run whose attack was killed when its intermediate state was complete."""
    _make_two(folder, f"{ROBUST} --scale tiny")
    run_folder = folder / "runs" / ROBUST / "seed-0"

    def reached() -> bool:
        """Whether the manifest says that the intermediate state exists; an empty checksum stands for no file yet."""
        sums = json.loads((run_folder / "done").read_text())["files"]
        return any("" not in accepted for name, accepted in sums.items() if name.endswith(".part.npz"))

    _kill(folder, f"evaluate runs/{ROBUST}/seed-0 {ATTACK}", reached)
    assert reached()


def _make_table(folder: Path) -> None:
    prepare(TABLE, folder, fresh=True)
    _make_two(folder, "digits-opl --scale tiny")


def _make_records(folder: Path) -> None:
    for argv in ("digits-ce", "digits-opl", "digits-opl --seed 1"):
        prepare(f"train {argv} --scale small --out runs", folder)
    prepare("results add runs --to results", folder)
    shutil.rmtree(folder / "runs/digits-opl/seed-1")
    (folder / "other/small/digits-opl").mkdir(parents=True)
    (folder / "results/small/digits-opl/seed-1.json").rename(folder / "other/small/digits-opl/seed-0.json")
    write(folder, {"TEXT.md": b"<!-- opl results: demo small -->\n<!-- end -->\n"})


def _make_export(folder: Path) -> None:
    for seed, name in enumerate(("bundle", "other")):
        prepare(f"train {DIGITS} --seed {seed} --out runs", folder)
        prepare(f"export runs/digits-opl/seed-{seed} {name}", folder)


def _make_cache(folder: Path) -> None:
    """Two caches of different images, with the same name."""
    for seed, name in ((1, "other-data"), (0, "data")):
        write(folder / name, domains(seed, per_class=6))
        prepare(f"{DOMAINS} --data.root {name} --out elsewhere-{seed}", folder)
        if seed:
            (folder / "cache").rename(folder / "other")
    used, other = (next(path for path in (folder / name).iterdir() if path.is_dir()) for name in ("cache", "other"))
    other.rename(other.with_name(used.name))


class Tree(NamedTuple):
    """A folder of runs, records, an export or a cache; the same files of another run are below `other`."""

    home: str
    """Where the files are that are damaged."""
    files: str
    readers: tuple[Reader, ...]
    make: Callable[[Path], None]


TREES = {
    "finished run": Tree(
        "runs/digits-opl/seed-0", "* measures/*",
        (REPORT, Reader(GEOMETRY, _printed), _records("new"), CHECK, Reader(RESUME.argv, _printed), EXPORT),
        partial(_make_two, argv=DIGITS),
    ),
    "unfinished run": Tree(
        "runs/digits-opl/seed-0", "*", (RESUME, REPORT, CHECK), partial(_make_two, argv=DIGITS, stop=3)
    ),
    "run before its test": Tree("runs/digits-opl/seed-0", "*", (RESUME,), partial(_make_two, argv=DIGITS, stop=4)),
    "noisy run": Tree(
        f"runs/{NOISY}/seed-0", "noise.* measures/*",
        (REPORT, Reader(f"evaluate runs/{NOISY}/seed-0 noise", _printed), CHECK),
        partial(_make_two, argv=f"{NOISY} --scale tiny", protocol="noise"),
    ),
    "unfinished noisy run": Tree(
        f"runs/{NOISY}/seed-0", "*", (_train(f"{NOISY} --scale tiny"),),
        partial(_make_two, argv=f"{NOISY} --scale tiny", stop=1),
    ),
    "run that another run starts from": Tree(
        f"runs/{FEW_SHOT}/seed-0", "* measures/*",
        (
            _train(f"{FEW_SHOT}-distilled --scale tiny"),
            Reader(f"evaluate runs/{FEW_SHOT}/seed-0 {EPISODES}", _printed), REPORT,
        ),
        partial(_make_two, argv=f"{FEW_SHOT} --scale tiny", protocol=EPISODES),
    ),
    "attacked run": Tree(
        f"runs/{ROBUST}/seed-0", "measures/* model.safetensors recipe.json",
        (Reader(f"evaluate runs/{ROBUST}/seed-0 {ATTACK}", _printed), CHECK), _make_attacked,
    ),
    "table": Tree(
        "runs/tiny/demo/digits-opl/seed-0", "*",
        (Reader(f"{TABLE} --json", _printed, page="runs/tiny/demo/report.html"),), _make_table,
    ),
    "records": Tree(
        "results", "small/digits-opl/*",
        (_page("results write --records results --file TEXT.md", "TEXT.md"), _records("results")), _make_records,
    ),
    "export": Tree("bundle", "*", (Reader("", _printed, function=_load), EXPORT), _make_export),
    "cache": Tree("cache", "*/*", (_train(f"{DOMAINS.removeprefix('train ')} --data.root data"),), _make_cache),
}  # fmt: skip


def cases(scratch: Path, share: float) -> Iterator[Case]:
    """Damage every file and read it; each tree is made once."""
    for name, tree in list(TREES.items())[: 2 if share < 0.1 else None]:
        pristine = scratch / name
        pristine.mkdir()
        tree.make(pristine)
        files = [file for pattern in tree.files.split() for file in sorted(pristine.glob(f"{tree.home}/{pattern}"))]
        names = dict.fromkeys(str(file.relative_to(pristine)) for file in files if file.is_file())
        kinds = cycle(DAMAGES)
        for file in (file for file in names if not file.endswith(OUTPUTS)):
            path, other = pristine / file, pristine / file.replace(tree.home, "other", 1)
            for reader in tree.readers:
                for kind in islice(kinds, KINDS_PER_FILE):
                    if DAMAGES[kind](path.read_bytes(), path, other) != path.read_bytes():
                        attempt = partial(_attempt, pristine, tree.home, file, reader, kind)
                        yield Case(f"{name}: {file}, {kind}: opl {reader.argv}", attempt)


@cache
def _expect(reader: Reader, pristine: Path) -> tuple[Any, str]:
    """What the reader makes of the undamaged folder, and what it says."""
    with tempfile.TemporaryDirectory(dir=pristine.parent) as scratch:
        folder = Path(shutil.copytree(pristine, Path(scratch) / "copy", symlinks=True))
        ended, text = reader.read(folder)
        if ended.code or ended.fault:
            raise RuntimeError(f"opl {reader.argv} fails on the undamaged folder: {ended.output}")
        return reader.observe(folder, ended), text


def _attempt(pristine: Path, home: str, file: str, reader: Reader, kind: str, folder: Path) -> Verdict:
    """Damage a file of the folder, read it, and judge."""
    expected, usual = _expect(reader, pristine)
    shutil.copytree(pristine, folder, symlinks=True, dirs_exist_ok=True)
    damage(kind, folder / file, folder / file.replace(home, "other", 1))
    ended, text = reader.read(folder)
    if ended.fault:
        return Verdict(ended.fault, ended=ended)
    if (reader.page or reader.strict) and _lacks_only_epochs(folder / file, pristine / file):
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


def _lacks_only_epochs(file: Path, whole: Path) -> bool:
    """Whether the metrics of an unfinished run lack only their end, even all lines: it looks like an earlier stop.

    A checkpoint inside the first epoch comes before any line, but after the file, so a deleted file is damage.
    """
    if file.name != "metrics.jsonl" or not file.is_file() or (file.parent / "done").exists():
        return False
    return whole.read_bytes().startswith(file.read_bytes().rpartition(b"\n")[0])
