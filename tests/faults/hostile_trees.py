"""Folders of runs with links, pipes and hostile names at every file name that commands open, with valid checksums.

No command may touch anything outside of its folder, wait for a pipe, or end with a traceback or a "defect". A tree
outside is compared before and after every command.
"""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from _files import checksum
from _process import Ended, call, run
from campaign import Case, Verdict

from _vouched import vouch

LIMIT = 120.0  # seconds after which a command hangs
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
NAMES = ("../outside/secret", "../../../../outside/secret", "{outside}/secret", "a/../../x", "", ".", "/", "a\0b", "~/x")
TRAIN = f"train digits-ce --scale tiny --seed 0 --out {Path(RUN).parents[1]}"
UNFINISHED = ("check .", "report .", "results add . --to results", TRAIN)
FINISHED = (
    *UNFINISHED[:3], f"evaluate {RUN} geometry", TRAIN, f"export {RUN} exported",
    "reproduce demo --scale tiny --seeds 1 --out .",
)  # fmt: skip
Make = Callable[[Path, Path], object]
"""Changes a folder of runs; the second path is the folder outside."""


def trees() -> Iterator[tuple[str, bool, Make]]:
    """All hostile folders: name, whether the run is finished, and what is changed."""
    for place in (*(f"{RUN}/{name}" for name in FILES), *AROUND):
        for target in ("secret", "absent", "folder"):
            yield f"a link at {place} to a {target}", True, lambda root, out, p=place, t=target: _put(root / p, out / t)
        yield f"a pipe at {place}", True, lambda root, _, p=place: _put(root / p)
    for name in FILES:
        yield f"unfinished, a link at {name}", False, lambda root, out, n=name: _put(root / RUN / n, out / "secret")
        yield f"unfinished, a pipe at {name}", False, lambda root, _, n=name: _put(root / RUN / n)
    for name in NAMES:
        yield f"the name {name!r} in done", True, lambda root, out, n=name: _list(root / RUN, out, n)
    for key in ("seed", "name", "scale"):
        yield f"a path as {key}", True, lambda root, _, k=key: _settings(root / RUN, k)


def _put(place: Path, target: Path | None = None) -> None:
    """Put a link to the target, or a pipe, at a place."""
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place)
    place.unlink(missing_ok=True)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(target) if target else os.mkfifo(place)


def _list(folder: Path, outside: Path, name: str) -> None:
    """Add a name outside of the folder, with its true checksum, to the manifest."""
    vouch(folder, more={name.replace("{outside}", str(outside)): [checksum(outside / "secret")]})


def _settings(folder: Path, key: str) -> None:
    about = json.loads((folder / "recipe.json").read_text())
    about["recipe"][key] = "../../../outside/x"
    (folder / "recipe.json").write_text(json.dumps(about))
    vouch(folder)


def cases(scratch: Path, share: float) -> Iterator[Case]:
    """Every command on every hostile folder."""
    for finished in (True, False):
        base = scratch / f"finished-{finished}"
        base.mkdir()
        ended = run("", base, function=lambda finished=finished: _make_base(finished))
        if ended.code:
            raise RuntimeError(ended.output)
    for name, finished, make in trees():
        base = scratch / f"finished-{finished}"
        argvs = FINISHED if finished else UNFINISHED
        yield Case(name, lambda sandbox, b=base, m=make, a=argvs: _attack(sandbox, b, m, a))


def _make_base(finished: bool) -> None:
    from dataclasses import replace

    from opl.experiments.paper import recipe
    from opl.experiments.training.run import Part, run

    for name in ("digits-ce", "digits-opl") if finished else ("digits-ce",):
        run(replace(recipe(name, "tiny"), seed=0), Path("tiny/demo"), Part(until=0 if finished else 2))
    assert (Path(RUN) / "checkpoint.pt").exists() or finished
    assert (Path(RUN) / "done").exists() == finished


def snapshot(folder: Path) -> dict[str, tuple[int, int, str]]:
    """Mode, modification time and content of everything in a folder."""
    return {
        str(file): (file.lstat().st_mode, file.lstat().st_mtime_ns, "" if file.is_symlink() else checksum(file))
        for file in (folder, *sorted(folder.rglob("*")))
    }


def _make_outside(folder: Path, run: Path) -> None:
    """A folder with files that no command may touch: single files, and a run that links lead to at any depth."""
    for inside in ("", "seed-0", "digits-ce/seed-0", "demo/digits-ce/seed-0"):
        shutil.copytree(run, folder / "folder" / inside, dirs_exist_ok=True)
    for place in (folder, *(path.parent for path in sorted(folder.rglob("recipe.json")))):
        for name in ("secret", ".left.0123.tmp", "0.txt"):
            (place / name).write_text("not ours")


def _attack(sandbox: Path, base: Path, make: Make, argvs: tuple[str, ...]) -> Verdict:
    """Run all commands on a hostile folder."""
    root, outside = sandbox / "runs", sandbox / "outside"
    _make_outside(outside, base / RUN)
    shutil.copytree(base, root, symlinks=True)
    make(root, outside)
    before, results = snapshot(outside), []
    for argv in argvs:
        paths = [(root / word).resolve() for word in argv.split()[1:] if word in (".", "results") or "/" in word]
        if not all(path.is_relative_to(root.resolve()) for path in paths):
            continue  # the user has named a link
        ended: Ended = call(argv, root, limit=LIMIT)
        results.append(ended)
        if snapshot(outside) != before:
            return Verdict("execution", f"opl {argv} touched a file outside", ended)
        if ended.outcome not in ("right", "refused"):
            return Verdict(ended.outcome, f"opl {argv}", ended)
    refused = next((ended for ended in results if ended.code), None)
    return Verdict("refused" if refused else "right", f"{len(results)} commands", refused)
