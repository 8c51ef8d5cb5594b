"""Folders of runs with links, pipes and hostile names at every file name that commands open, with valid checksums.

No command may touch anything outside of its folder, wait for a pipe, or end with a traceback or a "defect". Commands
are called in this process, which makes a case take a second instead of ten.
"""

import contextlib
import hashlib
import io
import json
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from opl.experiments.cli import main

LIMIT = 120  # seconds after which a command hangs
RUN = "tiny/demo/digits-ce/seed-0"
FILES = (  # of a run
    "recipe.json", "done", "sums.json", "result.json", "splits.json", "metrics.jsonl", "model.safetensors", "test.npz",
    "checkpoint.pt", "checkpoint.pt.sha256", "checkpoint-before.pt", "checkpoint-before.pt.sha256", "checkpoint-new.pt",
    "checkpoint-new.pt.sha256", "best.pt", "best.pt.sha256", "log.txt", "owner.json", ".owner.lock", ".manifest.lock",
    "error.json", "noise.json", "noise.npz", "features-test.npz", "measures", "measures/geometry.json",
    "measures/geometry.npz", "measures/geometry.part.npz",
)  # fmt: skip
AROUND = (  # beside the runs
    "tiny", "tiny/demo", "tiny/demo/digits-ce", "tiny/demo/digits-ce/seed-0", "tiny/demo/table.md",
    "tiny/demo/table.json", "tiny/demo/report.html", "tiny/demo/demo.pdf", "tiny/demo/demo.png", "tiny/demo/demo.txt",
    "tiny/demo/.measures", "tiny/demo/item.json", "tiny/demo/try.json", "results", "results/.records.lock",
    "results/small", "exported", "exported/config.json", "exported/model.safetensors", "exported/README.md",
)  # fmt: skip
NAMES = (
    "../outside/secret",
    "../../../../outside/secret",
    "{outside}/secret",
    "a/../../x",
    "",
    ".",
    "/",
    "a\0b",
    "~/x",
)


class Tree(NamedTuple):
    """A hostile folder."""

    name: str
    finished: bool
    make: Callable[[Path, Path], None]
    """Changes a folder of runs; the second path is the folder outside."""


def trees() -> Iterator[Tree]:
    """All hostile folders."""
    places = [*(f"{RUN}/{name}" for name in FILES), *AROUND]
    for place in places:
        for target in ("secret", "absent", "folder"):
            make = lambda root, outside, p=place, t=target: _link(root / p, outside / t)  # noqa: E731
            yield Tree(f"a link at {place} to a {target}", True, make)
        yield Tree(f"a pipe at {place}", True, lambda root, _, p=place: _pipe(root / p))
    for name in FILES:
        for kind in ("secret", "pipe"):
            make = lambda root, outside, n=name, k=kind: (  # noqa: E731
                _pipe(root / RUN / n) if k == "pipe" else _link(root / RUN / n, outside / k)
            )
            yield Tree(f"an unfinished run with {kind} at {name}", False, make)
    for name in NAMES:
        yield Tree(f"the name {name!r} in done", True, lambda root, outside, n=name: _list(root, outside, n))
    for key in ("seed", "name", "scale"):
        yield Tree(f"a path as {key}", True, lambda root, _, k=key: _settings(root, k))


def _clear(place: Path) -> None:
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place)
    place.unlink(missing_ok=True)
    place.parent.mkdir(parents=True, exist_ok=True)


def _link(place: Path, target: Path) -> None:
    _clear(place)
    place.symlink_to(target)


def _pipe(place: Path) -> None:
    _clear(place)
    os.mkfifo(place)


def _list(root: Path, outside: Path, name: str) -> None:
    """Add a name outside of the folder, with its true checksum, to the manifest."""
    name = name.replace("{outside}", str(outside))
    sums = json.loads((root / RUN / "done").read_text())["files"]
    sums[name] = [hashlib.sha256((outside / "secret").read_bytes()).hexdigest()]
    total = hashlib.sha256(json.dumps(sums, sort_keys=True).encode()).hexdigest()
    (root / RUN / "done").write_text(json.dumps({"files": sums, "sha256": total}))


def _settings(root: Path, key: str) -> None:
    file = root / RUN / "recipe.json"
    about = json.loads(file.read_text())
    about["recipe"][key] = "../../../outside/x"
    file.write_text(json.dumps(about))
    sums = json.loads((root / RUN / "done").read_text())["files"]
    sums["recipe.json"] = [hashlib.sha256(file.read_bytes()).hexdigest()]
    total = hashlib.sha256(json.dumps(sums, sort_keys=True).encode()).hexdigest()
    (root / RUN / "done").write_text(json.dumps({"files": sums, "sha256": total}))


def commands(root: Path, finished: bool) -> list[list[str]]:
    """The commands that meet a folder."""
    run = str(root / RUN)
    shared = [["check", f"{root}"], ["report", f"{root}"], ["results", "add", f"{root}", "--to", f"{root}/results"]]
    train = ["train", "digits-ce", "--scale", "tiny", "--seed", "0", "--out", str(root / "tiny/demo")]
    if not finished:
        return [*shared, train]
    return [
        *shared,
        ["evaluate", run, "geometry"],
        train,
        ["export", run, str(root / "exported")],
        ["reproduce", "demo", "--scale", "tiny", "--seeds", "1", "--out", str(root)],
    ]


class HangError(BaseException):
    """A command took too long."""


def call(argv: list[str]) -> tuple[int, str]:
    """Run a command in this process; return its exit code and output. A command that takes too long is interrupted."""

    def hang(*_: object) -> None:
        raise HangError

    text = io.StringIO()
    usual = signal.signal(signal.SIGALRM, hang)
    signal.alarm(LIMIT)
    try:
        with contextlib.redirect_stdout(text), contextlib.redirect_stderr(text):
            return main(argv), text.getvalue()
    except HangError:
        return -1, f"hangs\n{text.getvalue()}"
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, usual)


def snapshot(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    """Mode, modification time and content of everything in a folder."""
    found = {}
    for file in (folder, *sorted(folder.rglob("*"))):
        status = file.lstat()
        content = file.read_bytes() if file.is_file() and not file.is_symlink() else b""
        found[file.relative_to(folder).as_posix()] = status.st_mode, status.st_mtime_ns, content
    return found


def outside_of(folder: Path, run: Path) -> Path:
    """A folder with files that no command may touch: single files, and a run that links lead to at any depth."""
    folder.mkdir(parents=True)
    shutil.copytree(run, folder / "folder")
    for inside in ("seed-0", "digits-ce/seed-0", "demo/digits-ce/seed-0"):
        shutil.copytree(run, folder / "folder" / inside)
    for place in (folder, *(path.parent for path in sorted(folder.rglob("recipe.json")))):
        for name in ("secret", ".left.0123.tmp", "0.txt"):
            (place / name).write_text("not ours")
    return folder


def leads_outside(word: str, root: Path) -> bool:
    """Whether an argument is a path below the folder that leads out of it."""
    return word.startswith(str(root)) and not Path(word).resolve().is_relative_to(root.resolve())


def attack(tree: Tree, base: Path, scratch: Path) -> list[str]:
    """Run all commands on a hostile folder; return what went wrong."""
    root, faults = scratch / "runs", []
    outside = outside_of(scratch / "outside", base / RUN)
    shutil.copytree(base, root, symlinks=True)
    tree.make(root, outside)
    before = snapshot(outside)
    for argv in commands(root, tree.finished):
        if any(leads_outside(word, root) for word in argv):
            continue  # the user has named a link
        code, text = call(argv)
        if code not in (0, 1, 2) or "Traceback" in text or "defect of opl" in text:
            faults.append(f"{tree.name}: opl {argv[0]}: {code}: {text[-600:]}")
        if snapshot(outside) != before:
            faults.append(f"{tree.name}: opl {argv[0]} touched a file outside")
            before = snapshot(outside)
    shutil.rmtree(scratch)
    return faults
