"""Wrong command lines, always the same ones: each must end with exit code 1 or 2 and a sentence, before it trains."""

import itertools
import os
from collections.abc import Iterator
from pathlib import Path

NOT_NUMBERS = ("", "abc", "nan", "inf", "-inf", "1,5", "None", "--", "1 2", "9" * 400, "½", "\U0001f600")
NOT_POSITIVE = (*NOT_NUMBERS, "-1", "0")
NOT_FROM_ZERO = (*NOT_NUMBERS, "-1", "-1e-9")
NOT_COUNTS = (*NOT_POSITIVE, "1.5", "1e30", str(2**64))
NOT_COUNTS_OR_ZERO = (*NOT_NUMBERS, "-1", "1.5", "1e30", str(2**64))
NOT_FRACTIONS = (*NOT_FROM_ZERO, "1.000001", "1e30")
NOT_BELOW_ONE = (*NOT_FRACTIONS, "1")
NOT_WORDS = ("", "Last", "32", "none ", "..", "\u202e", "x" * 5000)
NOT_NAMES = ("", ".", "..", "../../x", "/x", "a/b", "a\\b", "a\nb", ".hidden", "x" * 300, "a\0b", "\udcff", "a:b")
NOT_FLAGS = (
    "--", "---epochs", "--epoch s", "--optimizer", "--optimizer.", "--optimizer.lrr", "--method.weigth", "-e", "--é",
    "--data.val.x", "--recipe", "--\U0001f600", "--model.wdith", "--__class__", "--optimizer.__post_init__", "--x\0",
)  # fmt: skip

COMMON = {
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
    "--selection": NOT_WORDS,
    "--precision": (*NOT_WORDS, "16", "8-true"),
    "--normalize": NOT_WORDS,
    "--log": NOT_WORDS,
    "--scale": (*NOT_WORDS, "custom", "large"),
    "--checksum": ("abc",),
    "--weights": ("/nowhere/at/all.safetensors", "..", "\udcff"),
}
"""Wrong values of the flags that every recipe has."""

SPECIAL = {
    ("digits-opl", "tiny"): {
        "--method.weight": NOT_FROM_ZERO,
        "--method.gamma": NOT_NUMBERS,
        "--method.form": NOT_WORDS,
        "--method.label-smoothing": NOT_BELOW_ONE,
        "--model.width": NOT_COUNTS,
        "--data.rows": NOT_COUNTS,
        "--data.val": NOT_COUNTS_OR_ZERO,
        "--data.test": NOT_COUNTS_OR_ZERO,
        "--data.noise": NOT_FROM_ZERO,
        "--data.classes": (*NOT_COUNTS_OR_ZERO, "1", "11"),
        "--data.pixels": (*NOT_COUNTS_OR_ZERO, "100000"),
        "--data.like": (*NOT_WORDS, "imagenet"),
    },
    ("digits-opl", "paper"): {
        "--data.test-fraction": (*NOT_BELOW_ONE, "0"),
        "--data.val": (*NOT_COUNTS_OR_ZERO, "1797"),
        "--data.split-seed": (*NOT_NUMBERS, "-2", "1.5"),
    },
    ("cifar100-resnet56-opl", "paper"): {
        "--model.depth": (*NOT_COUNTS, "57"),
        "--data.val": (*NOT_COUNTS_OR_ZERO, "50000"),
        "--data.padding": (*NOT_COUNTS_OR_ZERO, "10000"),
        "--data.flip": NOT_FRACTIONS,
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
    ("cifar-fs-rfs", "tiny"): {
        "--model.drop": NOT_BELOW_ONE,
        "--model.block": NOT_COUNTS,
        "--model.ramp": NOT_COUNTS_OR_ZERO,
        "--data.per-new-class": NOT_COUNTS,
    },
    ("domains-rsc-opl", "tiny"): {
        "--data.target": NOT_WORDS,
        "--data.size": NOT_COUNTS,
        "--data.rows": NOT_COUNTS,
        "--method.cells": NOT_FRACTIONS,
        "--method.every": NOT_COUNTS,
        "--method.rise": NOT_FROM_ZERO,
    },
    ("cifar10-robust-trades-opl", "tiny"): {
        "--method.eps": (*NOT_POSITIVE, "8"),
        "--method.step": NOT_POSITIVE,
        "--method.steps": NOT_COUNTS,
        "--method.norm": NOT_WORDS,
        "--normalize": ("data",),
    },
    ("mnist-noisy-uniform-tl-opl", "small"): {
        "--noise.rate": NOT_BELOW_ONE,
        "--noise.seed": (*NOT_NUMBERS, "-2", "1.5"),
        "--method.q": NOT_FRACTIONS,
        "--method.k": (*NOT_BELOW_ONE, "0"),
        "--method.start": NOT_COUNTS,
    },
}
"""Wrong values of the flags of some recipes at some scale."""

MAY_BE_EMPTY = ("--data.superclasses", "--schedule.milestones")  # lists, which may have no element

OTHERS = {
    ("reproduce", "demo", "--scale", "tiny"): {
        "--seeds": (*NOT_NUMBERS, "-1", "1.5"),
        "--jobs": (*NOT_NUMBERS, "-1", "0", "1.5"),
        "--scale": (*NOT_WORDS, "custom"),
        "--order": NOT_WORDS,
    },
    ("demo",): {"--seeds": (*NOT_NUMBERS, "-1", "1.5"), "--jobs": (*NOT_NUMBERS, "-1", "0", "1.5")},
    ("bench", "loss"): {"--seconds": NOT_POSITIVE, "--threads": (*NOT_COUNTS_OR_ZERO, "100000")},
    ("evaluate", "RUN", "episodes"): {
        "--way": (*NOT_COUNTS, "1"),
        "--shot": NOT_COUNTS,
        "--queries": NOT_COUNTS,
        "--episodes": NOT_COUNTS,
        "--noise": NOT_FROM_ZERO,
        "--classifier": NOT_WORDS,
        "--seed": NOT_COUNTS_OR_ZERO,
    },
    ("evaluate", "RUN", "attack"): {
        "--eps": (*NOT_POSITIVE, "8", "1/0", "/", "8/255/2"),
        "--images": NOT_COUNTS_OR_ZERO,
        "--steps": NOT_COUNTS,
        "--step": NOT_FROM_ZERO,
        "--batch": NOT_COUNTS,
        "--kinds": (*NOT_WORDS, "pgd2"),
        "--norm": NOT_WORDS,
    },
    ("export", "RUN", "exported"): {"--hub": ("a/b/c", "..", "/", "a b/c", "\udcff/x")},
}
"""Wrong values of the flags of the other commands."""

RECIPES = {  # what may stand where the settings of a run should be
    "empty": b"",
    "null": b"null",
    "list": b"[]",
    "number": b"3",
    "word": b'"recipe"',
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


def cases(scratch: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield a name and the words after `opl`, for at least 1,000 wrong command lines; their files are in `scratch`."""
    scratch.mkdir(parents=True, exist_ok=True)
    places = _make_places(scratch)
    runs = _make_runs(scratch)
    yield from _settings(scratch)
    yield from _commands(places, runs)
    for base, flags in OTHERS.items():
        words = [str(places["nowhere"]) if word == "RUN" else word for word in base]
        for flag, values in flags.items():
            yield from ((f"{base[0]} {flag}", [*words, flag, value]) for value in values)
    yield from _outputs(places)


def _settings(scratch: Path) -> Iterator[tuple[str, list[str]]]:
    out = ["--out", str(scratch / "out")]
    for (recipe, scale), flags in SPECIAL.items():
        base = ["train", recipe, "--scale", scale, *out]
        for flag, values in flags.items():
            yield from ((f"setting {flag}", [*base, flag, value]) for value in values)
            if flag not in MAY_BE_EMPTY:
                yield f"no value for {flag}", [*base, flag]
        yield from ((f"flag {flag!r}", [*base, flag, "1"]) for flag in NOT_FLAGS)
    for flag, values in COMMON.items():
        base = ["train", "digits-ce", *([] if flag == "--scale" else ["--scale", "tiny"]), *out]
        yield from ((f"setting {flag}", [*base, flag, value]) for value in values)
        yield f"no value for {flag}", [*base, flag]
        yield f"{flag} twice", [*base, flag, "1", flag, "2"]
    yield "scale twice", ["train", "digits-ce", "--scale", "tiny", "--scale", "small", *out]


def _commands(places: dict[str, Path], runs: list[Path]) -> Iterator[tuple[str, list[str]]]:
    """Wrong commands, and commands without what they need, or with too much."""
    for word in ("", "Train", "trian", "help", "-x", "--", "--out", "\0", "\udcff", "x" * 100_000, "--completion"):
        yield f"command {word[:20]!r}", [word]
    yield "no command", []
    yield "flag before the command", ["--epochs", "1", "train", "digits-ce"]
    yield from (("completion", ["--completion", shell]) for shell in ("", "fish", "BASH", "bash zsh"))
    yield "completion for two", ["--completion", "bash", "zsh"]
    for word in ("", "digits", "digits_opl", "DIGITS-CE", "../digits-ce", "\0", "\udcff", "table-1", "x" * 10_000):
        yield f"recipe {word[:20]!r}", ["train", word]
        yield f"item {word[:20]!r}", ["reproduce", word]
    yield from (
        (f"{command} alone", [command]) for command in ("train", "reproduce", "evaluate", "report", "export", "check")
    )
    yield from (
        (f"{command} with a word", [command, "word", "word"]) for command in ("demo", "recipes", "data", "bench")
    )
    yield from (
        ("results", ["results", *words]) for words in ([], ["ad"], ["add"], ["add", "/nowhere"], ["write", "x"])
    )
    every = (
        "demo",
        "recipes",
        "reproduce",
        "report",
        "results",
        "export",
        "data",
        "bench",
        "evaluate",
        "train",
        "check",
    )
    yield from ((f"{command} {flag!r}", [command, flag]) for command, flag in itertools.product(every, NOT_FLAGS))
    for name, place in places.items():
        path = str(place)
        yield f"results of {name}", ["results", "add", path]
        yield f"evaluate {name}", ["evaluate", path, "geometry"]
        yield f"export of {name}", ["export", path, f"{path}-exported"]
        yield f"text {name}", ["results", "write", "--file", path]
        if name != "an empty folder":  # in which nothing is wrong
            yield f"report of {name}", ["report", path]
            yield f"check of {name}", ["check", path]
    for run in runs:
        for protocol in ("geometry", "novel", "noise", "episodes", "attack"):
            yield f"evaluate a run with {run.parent.name}", ["evaluate", str(run), protocol]
        yield f"export a run with {run.parent.name}", ["export", str(run), str(run.parent / "exported")]
        yield f"record a run with {run.parent.name}", ["results", "add", str(run.parent)]
        yield f"check a run with {run.parent.name}", ["check", str(run.parent)]
    for protocol in ("", "geometri", "ATTACK", "../geometry", "\0", "\udcff", "--help me"):
        yield f"protocol {protocol!r}", ["evaluate", str(runs[0]), protocol]


def _outputs(places: dict[str, Path]) -> Iterator[tuple[str, list[str]]]:
    """Folders that cannot be written to."""
    names = ("a file", "inside a file", "a loop", "a device", "inside a device", "too long", "zero", "proc")
    for name, place in [*((name, str(places[name])) for name in names), ("empty", "")]:
        yield f"--out {name}", ["train", "digits-ce", "--scale", "tiny", "--out", place]
        yield f"--out {name}", ["reproduce", "demo", "--scale", "tiny", "--seeds", "1", "--out", place]
        yield f"--out={name}", ["train", "digits-ce", "--scale", "tiny", f"--out={place}"]
        yield f"demo --out {name}", ["demo", "--out", place]


def _make_places(scratch: Path) -> dict[str, Path]:
    """Paths that hold no runs."""
    (scratch / "file").write_text("a file")
    (scratch / "folder").mkdir(exist_ok=True)
    for one, other in (("loop", "pool"), ("pool", "loop")):
        if not os.path.lexists(scratch / one):
            (scratch / one).symlink_to(scratch / other)
    return {
        "nowhere": scratch / "nowhere",
        "a file": scratch / "file",
        "inside a file": scratch / "file" / "x",
        "an empty folder": scratch / "folder",
        "a loop": scratch / "loop",
        "a device": Path("/dev/null"),
        "inside a device": Path("/dev/null/x"),
        "too long": scratch / ("x" * 5000),
        "zero": scratch / "a\0b",
        "not text": scratch / "\udcff",
        "proc": Path("/proc/self/nothing"),
    }


def _make_runs(scratch: Path) -> list[Path]:
    """Folders that look like finished runs, each with another thing in place of its settings."""
    runs = []
    for name, content in RECIPES.items():
        run = scratch / "runs" / name / "seed-0"
        run.mkdir(parents=True, exist_ok=True)
        (run / "recipe.json").write_bytes(content)
        (run / "done").write_bytes(b"")
        runs.append(run)
    return runs
