"""Wrong command lines: each must end with exit code 1 or 2 and a message, before anything is trained."""

import itertools
import os
from collections.abc import Iterator
from pathlib import Path

from _process import call
from campaign import Case, Verdict

NUMBERS = ("", "abc", "nan", "inf", "-inf", "1,5", "None", "--", "1 2", "9" * 400, "½", "\U0001f600")
CHOICES = ("", "Last", "32", "none ", "..", "\u202e", "x" * 5000)
WRONG = {  # by the kind of flag, values that it must refuse
    "number": NUMBERS,
    "positive": (*NUMBERS, "-1", "0"),
    "from zero": (*NUMBERS, "-1", "-1e-9"),
    "count": (*NUMBERS, "-1", "0", "1.5", "1e30", str(2**64)),
    "count or zero": (*NUMBERS, "-1", "1.5", "1e30", str(2**64)),
    "seeds": (*NUMBERS, "-1", "1.5"),
    "jobs": (*NUMBERS, "-1", "0", "1.5"),
    "fraction": (*NUMBERS, "-1", "-1e-9", "1.000001", "1e30"),
    "below one": (*NUMBERS, "-1", "-1e-9", "1.000001", "1e30", "1"),
    "choice": CHOICES,
    "name": ("", ".", "..", "../../x", "/x", "a/b", "a\\b", "a\nb", ".hidden", "x" * 300, "a\0b", "\udcff", "a:b"),
    "run name": ("..", "../../x", "/x", "a/b", "\udcff"),
    "superclasses": ("-1", "20", "abc", "nan", "1.5"),
    "milestones": ("-1", "nan", "1.5"),
    "data folder": ("/nowhere/at/all", "/dev/null", "\udcff", "x" * 5000),
    "weights": ("/nowhere/at/all.safetensors", "..", "\udcff"),
    "repository": ("a/b/c", "..", "/", "a b/c", "\udcff/x"),
    "": (),
}
NOT_FLAGS = (
    "--", "---epochs", "--epoch s", "--optimizer", "--optimizer.", "--optimizer.lrr", "--method.weigth", "-e", "--é",
    "--data.val.x", "--recipe", "--\U0001f600", "--model.wdith", "--__class__", "--optimizer.__post_init__", "--x\0",
)  # fmt: skip
# Commands, and below each its flags: kind, flag, and more values that it must refuse.
FLAGS = """
train digits-ce --scale tiny
    count --epochs; count --batch-size; count --eval-every; count --accumulate; from zero --clip; count or zero --seed
    count --devices 1000; count --nodes 9; positive --optimizer.lr; below one --optimizer.momentum
    from zero --optimizer.weight-decay; from zero --schedule.warmup 1e30 1e9; name --name; run name --after
    choice --selection; choice --precision 16 8-true; choice --normalize; choice --log; weights --weights
    --checksum abc
train digits-ce
    choice --scale custom large
train digits-opl --scale tiny
    from zero --method.weight; number --method.gamma; choice --method.form; below one --method.label-smoothing
    count --model.width; count --data.rows; count or zero --data.val; count or zero --data.test
    count or zero --data.classes 1 11; count or zero --data.pixels 100000; choice --data.like imagenet
train digits-opl --scale paper
    count or zero --data.val 1797
train cifar100-resnet56-opl --scale paper
    count --model.depth 57; count or zero --data.val 50000; fraction --data.jitter; superclasses --data.superclasses
    data folder --data.root; milestones --schedule.milestones; from zero --schedule.factor
train cifar100-resnet56-arcface --scale tiny
    positive --method.head.scale; from zero --method.head.margin 4; count or zero --method.head.warmup
train cifar-fs-rfs --scale tiny
    below one --model.drop
train domains-rsc-opl --scale tiny
    choice --data.target; count --data.size; fraction --method.cells; count --method.every
train cifar10-robust-trades-opl --scale tiny
    positive --method.eps 8; positive --method.step; count --method.steps; --normalize data
train mnist-noisy-uniform-tl-opl --scale small
    below one --noise.rate; fraction --method.q; below one --method.k 0; count --method.start
reproduce demo --scale tiny
    seeds --seeds; jobs --jobs; choice --order
reproduce demo
    choice --scale custom
demo
    seeds --seeds; jobs --jobs
bench loss
    positive --seconds; count or zero --threads 100000
evaluate {missing} episodes
    count --way 1; count --shot; count --queries; count --episodes; from zero --noise; choice --classifier
    count or zero --seed
evaluate {missing} attack
    positive --eps 8 1/0 / 8/255/2; count or zero --images; count --steps; count --batch; choice --kinds pgd2
    choice --norm
export {missing} exported
    repository --hub
"""
MAY_BE_EMPTY = ("--data.superclasses", "--schedule.milestones")
COMMANDS = (
    "demo", "recipes", "reproduce", "report", "results", "export", "data", "bench", "evaluate", "train", "check",
)  # fmt: skip
UNKNOWN = ("", "digits", "digits_opl", "DIGITS-CE", "../digits-ce", "\0", "\udcff", "x" * 10_000)
OTHERS: tuple[list[str], ...] = (
    [], ["--epochs", "1", "train", "digits-ce"], ["--completion", "bash", "zsh"], ["train", "table-1"],
    *([word] for word in ("", "Train", "trian", "help", "-x", "--", "--out", "\0", "\udcff", "x" * 100_000)),
    *(["--completion", *shell] for shell in ([], [""], ["fish"], ["BASH"], ["bash zsh"])),
    *([command, name] for name in UNKNOWN for command in ("train", "reproduce")),
    *([command] for command in ("train", "reproduce", "evaluate", "report", "export", "check")),
    *([command, "extra", "extra"] for command in ("demo", "recipes", "data", "bench")),
    *(["results", *argv] for argv in ([], ["ad"], ["add"], ["add", "/nowhere"], ["write", "x"])),
    *([command, flag] for command, flag in itertools.product(COMMANDS, NOT_FLAGS)),
)  # fmt: skip
RECIPE_FILES = {  # what may stand in place of the settings of a run
    "empty": b"", "null": b"null", "list": b"[]", "number": b"3", "text": b'"recipe"', "no-settings": b"{}",
    "not-a-number": b'{"recipe": NaN}', "bytes": bytes(range(256)), "zeros": bytes(4096),
    "settings-are-a-list": b'{"recipe": []}', "settings-are-empty": b'{"recipe": {}}',
    "no-such-kind": b'{"recipe": {"kind": "Nothing"}}', "kind-is-a-list": b'{"recipe": {"kind": []}}',
    "kind-alone": b'{"recipe": {"kind": "Recipe"}}', "half": b'{"recipe": {"kind": "Recipe", "name": "digits-ce", "da',
    "nested": b'{"recipe": ' + b"[" * 10_000 + b"]" * 10_000 + b"}", "not-utf-8": '{"recipe": "é"}'.encode("latin-1"),
}  # fmt: skip


def cases(scratch: Path, share: float) -> Iterator[Case]:
    """Every wrong command line, in an empty folder."""
    for number, argv in enumerate(_command_lines(scratch)):
        text = " ".join(argv).encode("unicode_escape", errors="backslashreplace").decode()[:300]
        yield Case(f"{number}: opl {text.replace(str(scratch), '')}", lambda sandbox, argv=argv: _run(argv, sandbox))


def _run(argv: list[str], sandbox: Path) -> Verdict:
    ended = call(argv, sandbox)
    return Verdict("silent" if ended.outcome == "right" else ended.outcome, ended=ended)


def _command_lines(scratch: Path) -> Iterator[list[str]]:
    paths, runs = _make_paths(scratch), list(_make_runs(scratch))
    out = ["--out", str(scratch / "out")]
    base: list[str] = []
    for line in FLAGS.strip().splitlines():
        if not line.startswith(" "):
            base = [word.replace("{missing}", str(paths["missing"])) for word in line.split()]
            base += out if base[0] == "train" else []
            yield from ([*base, flag, "1"] for flag in NOT_FLAGS if base[0] == "train")
            continue
        for entry in line.split(";"):
            kind, _, rest = entry.partition("--")
            flag, *more = f"--{rest}".split()
            yield from ([*base, flag, value] for value in (*WRONG[kind.strip()], *more))
            if base[0] == "train" and flag not in MAY_BE_EMPTY:
                yield from ([*base, flag], [*base, flag, "1", flag, "2"])
    yield from OTHERS
    for name, path in ((name, str(path)) for name, path in paths.items()):
        yield from (["results", "add", path], ["evaluate", path, "geometry"], ["export", path, f"{path}-exported"])
        yield ["results", "write", "--file", path]
        yield from (["report", path], ["check", path]) if name != "an empty folder" else ()
    for path in runs:
        protocols = ("geometry", "novel", "noise", "episodes", "attack")
        yield from (["evaluate", str(path), protocol] for protocol in protocols)
        yield ["export", str(path), str(path.parent / "exported")]
        yield from (["results", "add", str(path.parent)], ["check", str(path.parent)])
    for protocol in ("", "geometri", "ATTACK", "../geometry", "\0", "\udcff", "--help me"):
        yield ["evaluate", str(runs[0]), protocol]
    unwritable = ("a file", "inside a file", "a loop", "a device", "inside a device", "too long", "null byte", "proc")
    for path in (*(str(paths[name]) for name in unwritable), ""):
        yield ["train", "digits-ce", "--scale", "tiny", "--out", path]
        yield ["train", "digits-ce", "--scale", "tiny", f"--out={path}"]
        yield ["reproduce", "demo", "--scale", "tiny", "--seeds", "1", "--out", path]
        yield ["demo", "--out", path]


def _make_paths(scratch: Path) -> dict[str, Path]:
    """Paths that hold no runs."""
    (scratch / "file").write_text("a file")
    (scratch / "folder").mkdir()
    (scratch / "loop").symlink_to(scratch / "pool")
    (scratch / "pool").symlink_to(scratch / "loop")
    names = {"missing": "missing", "a file": "file", "inside a file": "file/x", "an empty folder": "folder"}
    names |= {"a loop": "loop", "too long": "x" * 5000, "null byte": "a\0b", "not text": "\udcff"}
    devices = {"a device": os.devnull, "inside a device": f"{os.devnull}/x", "proc": "/proc/self/nothing"}
    return {name: scratch / path for name, path in (names | devices).items()}


def _make_runs(scratch: Path) -> Iterator[Path]:
    """Folders that look like finished runs, each with something else in place of its settings."""
    for name, content in RECIPE_FILES.items():
        folder = scratch / "runs" / name / "seed-0"
        folder.mkdir(parents=True)
        (folder / "recipe.json").write_bytes(content)
        (folder / "done").write_bytes(b"")
        yield folder
