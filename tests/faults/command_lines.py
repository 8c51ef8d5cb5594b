"""Wrong command lines: each must end with exit code 1 or 2 and a message, before anything is trained."""

import itertools
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from _process import run
from _tally import Tally

NOT_NUMBERS = ("", "abc", "nan", "inf", "-inf", "1,5", "None", "--", "1 2", "9" * 400, "½", "\U0001f600")
NOT_POSITIVE = (*NOT_NUMBERS, "-1", "0")
NOT_FROM_ZERO = (*NOT_NUMBERS, "-1", "-1e-9")
NOT_COUNTS = (*NOT_POSITIVE, "1.5", "1e30", str(2**64))
NOT_COUNTS_OR_ZERO = (*NOT_NUMBERS, "-1", "1.5", "1e30", str(2**64))
NOT_SEEDS = (*NOT_NUMBERS, "-2", "1.5")
NOT_FRACTIONS = (*NOT_FROM_ZERO, "1.000001", "1e30")
NOT_BELOW_ONE = (*NOT_FRACTIONS, "1")
NOT_CHOICES = ("", "Last", "32", "none ", "..", "\u202e", "x" * 5000)
NOT_NAMES = ("", ".", "..", "../../x", "/x", "a/b", "a\\b", "a\nb", ".hidden", "x" * 300, "a\0b", "\udcff", "a:b")
NOT_FLAGS = (
    "--", "---epochs", "--epoch s", "--optimizer", "--optimizer.", "--optimizer.lrr", "--method.weigth", "-e", "--é",
    "--data.val.x", "--recipe", "--\U0001f600", "--model.wdith", "--__class__", "--optimizer.__post_init__", "--x\0",
)  # fmt: skip

COMMON = {  # wrong values of the flags that every recipe has
    "--epochs": NOT_COUNTS,
    "--batch-size": NOT_COUNTS,
    "--eval-every": NOT_COUNTS,
    "--accumulate": NOT_COUNTS,
    "--clip": NOT_FROM_ZERO,
    "--seed": NOT_COUNTS_OR_ZERO,
    "--devices": (*NOT_COUNTS, "1000"),
    "--nodes": (*NOT_COUNTS, "9"),
    "--optimizer.lr": NOT_POSITIVE,
    "--optimizer.momentum": NOT_BELOW_ONE,
    "--optimizer.weight-decay": NOT_FROM_ZERO,
    "--schedule.warmup": (*NOT_FROM_ZERO, "1e30", "1e9"),
    "--name": NOT_NAMES,
    "--after": ("..", "../../x", "/x", "a/b", "\udcff"),
    "--selection": NOT_CHOICES,
    "--precision": (*NOT_CHOICES, "16", "8-true"),
    "--normalize": NOT_CHOICES,
    "--log": NOT_CHOICES,
    "--scale": (*NOT_CHOICES, "custom", "large"),
    "--checksum": ("abc",),
    "--weights": ("/nowhere/at/all.safetensors", "..", "\udcff"),
}
SPECIAL = {  # wrong values of the flags of some recipes, by recipe and scale
    ("digits-opl", "tiny"): {
        "--method.weight": NOT_FROM_ZERO,
        "--method.gamma": NOT_NUMBERS,
        "--method.form": NOT_CHOICES,
        "--method.label-smoothing": NOT_BELOW_ONE,
        "--model.width": NOT_COUNTS,
        "--data.rows": NOT_COUNTS,
        "--data.val": NOT_COUNTS_OR_ZERO,
        "--data.test": NOT_COUNTS_OR_ZERO,
        "--data.classes": (*NOT_COUNTS_OR_ZERO, "1", "11"),
        "--data.pixels": (*NOT_COUNTS_OR_ZERO, "100000"),
        "--data.like": (*NOT_CHOICES, "imagenet"),
    },
    ("digits-opl", "paper"): {"--data.val": (*NOT_COUNTS_OR_ZERO, "1797")},
    ("cifar100-resnet56-opl", "paper"): {
        "--model.depth": (*NOT_COUNTS, "57"),
        "--data.val": (*NOT_COUNTS_OR_ZERO, "50000"),
        "--data.jitter": NOT_FRACTIONS,
        "--data.superclasses": ("-1", "20", "abc", "nan", "1.5"),
        "--data.root": ("/nowhere/at/all", "/dev/null", "\udcff", "x" * 5000),
        "--schedule.milestones": ("-1", "nan", "1.5"),
        "--schedule.factor": NOT_FROM_ZERO,
    },
    ("cifar100-resnet56-arcface", "tiny"): {
        "--method.head.scale": NOT_POSITIVE,
        "--method.head.margin": (*NOT_FROM_ZERO, "4"),
        "--method.head.warmup": NOT_COUNTS_OR_ZERO,
    },
    ("cifar-fs-rfs", "tiny"): {"--model.drop": NOT_BELOW_ONE},
    ("domains-rsc-opl", "tiny"): {
        "--data.target": NOT_CHOICES,
        "--data.size": NOT_COUNTS,
        "--method.cells": NOT_FRACTIONS,
        "--method.every": NOT_COUNTS,
    },
    ("cifar10-robust-trades-opl", "tiny"): {
        "--method.eps": (*NOT_POSITIVE, "8"),
        "--method.step": NOT_POSITIVE,
        "--method.steps": NOT_COUNTS,
        "--normalize": ("data",),
    },
    ("mnist-noisy-uniform-tl-opl", "small"): {
        "--noise.rate": NOT_BELOW_ONE,
        "--method.q": NOT_FRACTIONS,
        "--method.k": (*NOT_BELOW_ONE, "0"),
        "--method.start": NOT_COUNTS,
    },
}
OTHER_COMMANDS = {  # wrong values of the flags of the other commands
    ("reproduce", "demo", "--scale", "tiny"): {
        "--seeds": (*NOT_NUMBERS, "-1", "1.5"),
        "--jobs": (*NOT_NUMBERS, "-1", "0", "1.5"),
        "--scale": (*NOT_CHOICES, "custom"),
        "--order": NOT_CHOICES,
    },
    ("demo",): {"--seeds": (*NOT_NUMBERS, "-1", "1.5"), "--jobs": (*NOT_NUMBERS, "-1", "0", "1.5")},
    ("bench", "loss"): {"--seconds": NOT_POSITIVE, "--threads": (*NOT_COUNTS_OR_ZERO, "100000")},
    ("evaluate", "RUN", "episodes"): {
        "--way": (*NOT_COUNTS, "1"),
        "--shot": NOT_COUNTS,
        "--queries": NOT_COUNTS,
        "--episodes": NOT_COUNTS,
        "--noise": NOT_FROM_ZERO,
        "--classifier": NOT_CHOICES,
        "--seed": NOT_COUNTS_OR_ZERO,
    },
    ("evaluate", "RUN", "attack"): {
        "--eps": (*NOT_POSITIVE, "8", "1/0", "/", "8/255/2"),
        "--images": NOT_COUNTS_OR_ZERO,
        "--steps": NOT_COUNTS,
        "--batch": NOT_COUNTS,
        "--kinds": (*NOT_CHOICES, "pgd2"),
        "--norm": NOT_CHOICES,
    },
    ("export", "RUN", "exported"): {"--hub": ("a/b/c", "..", "/", "a b/c", "\udcff/x")},
}
MAY_BE_EMPTY = ("--data.superclasses", "--schedule.milestones")
COMMANDS = (
    "demo", "recipes", "reproduce", "report", "results", "export", "data", "bench", "evaluate", "train", "check",
)  # fmt: skip
RECIPE_FILES = {  # what may stand in place of the settings of a run
    "empty": b"",
    "null": b"null",
    "list": b"[]",
    "number": b"3",
    "text": b'"recipe"',
    "not-a-number": b'{"recipe": NaN}',
    "no-settings": b"{}",
    "settings-are-a-list": b'{"recipe": []}',
    "settings-are-empty": b'{"recipe": {}}',
    "no-such-kind": b'{"recipe": {"kind": "Nothing"}}',
    "kind-is-a-list": b'{"recipe": {"kind": []}}',
    "kind-alone": b'{"recipe": {"kind": "Recipe"}}',
    "half": b'{"recipe": {"kind": "Recipe", "name": "digits-ce", "da',
    "nested": b'{"recipe": ' + b"[" * 10_000 + b"]" * 10_000 + b"}",
    "bytes": bytes(range(256)),
    "zeros": bytes(4096),
    "not-utf-8": '{"recipe": "é"}'.encode("latin-1"),
}


def command_lines(scratch: Path, tally: Tally, share: float) -> None:
    """Run every wrong command line in an empty folder."""
    (scratch / "files").mkdir()
    for argv in list(_cases(scratch / "files"))[:: max(1, round(1 / share))]:
        folder = scratch / "cwd"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        ended = run(argv, cwd=folder, environment={"OPL_CACHE": str(folder / "cache")})
        text = " ".join(argv).encode("unicode_escape", errors="backslashreplace").decode()[:300]
        tally.add(ended.fault or ("refused" if ended.refused else "silent"), f"opl {text}", ended)


def _cases(scratch: Path) -> Iterator[list[str]]:
    paths, runs = _make_paths(scratch), _make_runs(scratch)
    out = ["--out", str(scratch / "out")]
    for (recipe, scale), flags in SPECIAL.items():
        base = ["train", recipe, "--scale", scale, *out]
        yield from ([*base, flag, value] for flag, values in flags.items() for value in values)
        yield from ([*base, flag] for flag in flags if flag not in MAY_BE_EMPTY)
        yield from ([*base, flag, "1"] for flag in NOT_FLAGS)
    for flag, values in COMMON.items():
        base = ["train", "digits-ce", *([] if flag == "--scale" else ["--scale", "tiny"]), *out]
        yield from ([*base, flag, value] for value in values)
        yield from ([*base, flag], [*base, flag, "1", flag, "2"])
    yield from _other_commands(paths, runs)
    for base, flags in OTHER_COMMANDS.items():
        argv = [str(paths["missing"]) if word == "RUN" else word for word in base]
        yield from ([*argv, flag, value] for flag, values in flags.items() for value in values)
    unwritable = ("a file", "inside a file", "a loop", "a device", "inside a device", "too long", "null byte", "proc")
    for path in (*(str(paths[name]) for name in unwritable), ""):
        yield ["train", "digits-ce", "--scale", "tiny", "--out", path]
        yield ["train", "digits-ce", "--scale", "tiny", f"--out={path}"]
        yield ["reproduce", "demo", "--scale", "tiny", "--seeds", "1", "--out", path]
        yield ["demo", "--out", path]


def _other_commands(paths: dict[str, Path], runs: list[Path]) -> Iterator[list[str]]:
    """Unknown commands, and commands with missing, extra or wrong arguments."""
    for word in ("", "Train", "trian", "help", "-x", "--", "--out", "\0", "\udcff", "x" * 100_000, "--completion"):
        yield [word]
    yield from ([], ["--epochs", "1", "train", "digits-ce"], ["--completion", "bash", "zsh"])
    yield from (["--completion", shell] for shell in ("", "fish", "BASH", "bash zsh"))
    for name in ("", "digits", "digits_opl", "DIGITS-CE", "../digits-ce", "\0", "\udcff", "x" * 10_000):
        yield from (["train", name], ["reproduce", name])
    yield ["train", "table-1"]
    yield from ([command] for command in ("train", "reproduce", "evaluate", "report", "export", "check"))
    yield from ([command, "extra", "extra"] for command in ("demo", "recipes", "data", "bench"))
    yield from (["results", *argv] for argv in ([], ["ad"], ["add"], ["add", "/nowhere"], ["write", "x"]))
    yield from ([command, flag] for command, flag in itertools.product(COMMANDS, NOT_FLAGS))
    for name, path in ((name, str(path)) for name, path in paths.items()):
        yield from (["results", "add", path], ["evaluate", path, "geometry"], ["export", path, f"{path}-exported"])
        yield ["results", "write", "--file", path]
        if name != "an empty folder":
            yield from (["report", path], ["check", path])
    for path in runs:
        yield from (
            ["evaluate", str(path), protocol] for protocol in ("geometry", "novel", "noise", "episodes", "attack")
        )
        yield ["export", str(path), str(path.parent / "exported")]
        yield from (["results", "add", str(path.parent)], ["check", str(path.parent)])
    for protocol in ("", "geometri", "ATTACK", "../geometry", "\0", "\udcff", "--help me"):
        yield ["evaluate", str(runs[0]), protocol]


def _make_paths(scratch: Path) -> dict[str, Path]:
    """Paths that hold no runs."""
    (scratch / "file").write_text("a file")
    (scratch / "folder").mkdir()
    (scratch / "loop").symlink_to(scratch / "pool")
    (scratch / "pool").symlink_to(scratch / "loop")
    return {
        "missing": scratch / "missing",
        "a file": scratch / "file",
        "inside a file": scratch / "file" / "x",
        "an empty folder": scratch / "folder",
        "a loop": scratch / "loop",
        "a device": Path(os.devnull),
        "inside a device": Path(os.devnull) / "x",
        "too long": scratch / ("x" * 5000),
        "null byte": scratch / "a\0b",
        "not text": scratch / "\udcff",
        "proc": Path("/proc/self/nothing"),
    }


def _make_runs(scratch: Path) -> list[Path]:
    """Folders that look like finished runs, each with something else in place of its settings."""
    runs = []
    for name, content in RECIPE_FILES.items():
        folder = scratch / "runs" / name / "seed-0"
        folder.mkdir(parents=True)
        (folder / "recipe.json").write_bytes(content)
        (folder / "done").write_bytes(b"")
        runs.append(folder)
    return runs
