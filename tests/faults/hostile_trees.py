"""Folders of runs with links, pipes and hostile names at every file name that commands open, with valid checksums.

No command may touch anything outside of its folder, wait for a pipe, or end with a traceback or a "defect". A tree
outside is compared before and after every command.
"""

import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

from _files import PIPE, Link, checksum, domains, put, write
from _process import call, prepare
from campaign import Case, Verdict

from _finished_runs import dump, load
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
NAMES = (
    "../outside/secret", "../../../../outside/secret", "{outside}/secret", "a/../../x", "", ".", "/", "a\0b", "~/x",
)  # fmt: skip
TRAIN = f"train digits-ce --scale tiny --seed 0 --out {Path(RUN).parents[1]}"
UNFINISHED = ("check .", "report .", "results add . --to results", TRAIN)
FINISHED = (
    *UNFINISHED[:3], f"evaluate {RUN} geometry", TRAIN, f"export {RUN} exported",
    "reproduce demo --scale tiny --seeds 1 --out .",
)  # fmt: skip
SEARCH = "search digits-opl --scale tiny --over method.weight=0.5,1 --out ."
TRY = "try pictures/a --out . --minutes 9 --seeds 1 --epochs 1 --weights none --network resnet-10-w16 --jobs 1"
ADD, EXPORT = "results add small --to results", "export small/digits-ce/seed-0 exported"
WRITE = "results write --records results --file RESULTS.md --readme README.md --pages docs/results"
DOCUMENTS = ("RESULTS.md", "README.md", "docs/results/demo.md")
OTHERS = {  # commands that write files of their own, and these files
    ADD: "results/.records.lock results/small results/small/digits-ce results/small/digits-ce/seed-0.json",
    WRITE: "RESULTS.md README.md docs/results/demo.md docs/results/forest.svg results/small results/small/digits-ce "
    "results/small/digits-ce/seed-0.json",
    EXPORT: "exported/config.json exported/model.safetensors exported/README.md exported/training.json "
    "exported/training.png exported/similarity.png",
    SEARCH: "search search/digits-opl search/digits-opl/search.json search/digits-opl/trial-000.json "
    "search/digits-opl/trials.json search/digits-opl/trials.md search/digits-opl/trials.pdf "
    "search/digits-opl/trials.png search/digits-opl/winner.json search/digits-opl/owner.json "
    "search/digits-opl/.owner.lock search/digits-opl/digits-opl-trial-000/seed-0/log.txt",
    TRY: "pictures/a/class-0/0.png "
    "try try/a try/a/try.json try/a/try-a-ce.json try/a/table.md try/a/table.json try/a/report.html "
    "try/a/owner.json try/a/.owner.lock try/a/try-a-ce/seed-0/log.txt cache/*-source.json cache/try-a-*.lock "
    "cache/try-a-*/contents.json cache/try-a-*/pixels.npy cache/try-a-*/labels.npy cache/try-a-*/parts.npy",
}


class Tree(NamedTuple):
    """A hostile folder: a base that is changed, given also the folder outside, and the commands that meet it."""

    name: str
    make: Callable[[Path, Path], object]
    base: str = "finished"
    commands: tuple[str, ...] = FINISHED


def trees() -> Iterator[Tree]:
    """All hostile folders."""
    for file in (*(f"{RUN}/{name}" for name in FILES), *AROUND):
        yield from _at(file, ("secret", "absent", "folder", ""))
    for name in FILES:
        yield from _at(f"{RUN}/{name}", ("secret", ""), "unfinished", UNFINISHED)
    for argv, files in OTHERS.items():
        for file in files.split():
            yield from _at(file, ("secret", ""), "others", (argv,))
    for name in NAMES:
        yield Tree(f"the name {name!r} in done", partial(_list, name))
    for key in ("seed", "name", "scale"):
        yield Tree(f"a path as {key}", partial(_set, key))


def _at(
    file: str, targets: tuple[str, ...], base: str = "finished", commands: tuple[str, ...] = FINISHED
) -> Iterator[Tree]:
    """Links to targets in the folder outside, and a pipe for an empty target, in place of one file."""
    command = " ".join(commands[-1].split()[:2])
    for target in targets:
        name = f"{base} runs, a {'link to a ' + target if target else 'pipe'} at {file}: opl {command}"
        yield Tree(name, partial(_put, file, target), base, commands)


def _put(file: str, target: str, root: Path, outside: Path) -> None:
    put(next(root.glob(file), root / file), Link(outside / target) if target else PIPE)


def _list(name: str, root: Path, outside: Path) -> None:
    """Add a name outside of the folder, with its true checksum, to the manifest."""
    vouch(root / RUN, more={name.replace("{outside}", str(outside)): [checksum(outside / "secret")]})


def _set(key: str, root: Path, _: Path) -> None:
    about = load(root / RUN / "recipe.json")
    about["recipe"][key] = "../../../outside/x"
    dump(root / RUN / "recipe.json", about)
    vouch(root / RUN)


def cases(scratch: Path, share: float) -> Iterator[Case]:
    """Every command on every hostile folder."""
    for name, make in BASES.items():
        (scratch / name).mkdir()
        prepare("", scratch / name, function=make)
    for tree in trees():
        yield Case(tree.name, partial(_attack, tree, scratch / tree.base))


def _train(*names: str, until: int = 0) -> None:
    from dataclasses import replace

    from opl.experiments.paper import recipe
    from opl.experiments.training.run import Part, run

    for name in names:
        run(replace(recipe(name, "tiny"), seed=0), Path("tiny/demo"), Part(until=until))
    assert (Path(RUN) / "done").exists() == (not until)
    assert (Path(RUN) / "checkpoint.pt").exists() or not until


def _make_others() -> int:
    """A run that may be recorded and exported, a search, and a trial on pictures."""
    from opl.experiments.cli import main

    write(Path("pictures"), domains(per_class=6))
    write(Path(), dict.fromkeys(DOCUMENTS, b"<!-- opl results: demo small -->\n<!-- end -->\n"))
    train = "train digits-ce --scale small --out small"
    return sum(main(argv.split()) for argv in (train, ADD, EXPORT, SEARCH, TRY, WRITE))


BASES: dict[str, Callable[[], object]] = {
    "finished": lambda: _train("digits-ce", "digits-opl"),
    "unfinished": lambda: _train("digits-ce", until=2),
    "others": _make_others,
}


def _state(folder: Path) -> dict[str, tuple[int, int, str]]:
    """Mode, modification time and content of everything in a folder."""
    return {
        str(file): (file.lstat().st_mode, file.lstat().st_mtime_ns, "" if file.is_symlink() else checksum(file))
        for file in (folder, *sorted(folder.rglob("*")))
    }


def _make_outside(folder: Path, run: Path) -> None:
    """A folder with files that no command may touch: single files, and a run that links lead to at any depth."""
    for inside in ("", "seed-0", "digits-ce/seed-0", "demo/digits-ce/seed-0"):
        shutil.copytree(run, folder / "folder" / inside, dirs_exist_ok=True)
    for parent in (folder, *(path.parent for path in sorted(folder.rglob("recipe.json")))):
        write(parent, dict.fromkeys(("secret", ".left.0123.tmp", "0.txt"), b"not ours"))


def _attack(tree: Tree, base: Path, sandbox: Path) -> Verdict:
    """Run all commands on a hostile folder."""
    root, outside = sandbox / "runs", sandbox / "outside"
    _make_outside(outside, base / (RUN if (base / RUN).exists() else "small/digits-ce/seed-0"))
    shutil.copytree(base, root, symlinks=True)
    tree.make(root, outside)
    before, results = _state(outside), []
    for argv in tree.commands:
        paths = [(root / word).resolve() for word in argv.split()[1:] if word in (".", "results") or "/" in word]
        if not all(path.is_relative_to(root.resolve()) for path in paths):
            continue  # the user has named a link
        ended = call(argv, root, limit=LIMIT)
        results.append(ended)
        if _state(outside) != before:
            return Verdict("execution", f"opl {argv} touched a file outside", ended)
        if ended.outcome not in ("right", "refused"):
            return Verdict(ended.outcome, f"opl {argv}", ended)
    refused = next((ended for ended in results if ended.code), None)
    return Verdict("refused" if refused else "right", f"{len(results)} commands", refused)
