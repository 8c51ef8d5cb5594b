"""Random values in every file of finished runs and records, all with valid checksums.

A checksum shows that a file is complete, not that its values make sense: whoever writes a file can also write its
checksum. Every command must show, refuse or skip such a run in a sentence. Each folder has many runs with one changed
value each, since one bad run must not hide the others.
"""

import io
import json
import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from _process import call
from campaign import Case, Verdict

from _finished_runs import dump, load, write_finished
from _runs import _outputs, _record
from _vouched import metric_lines, vouch

VALUES_IN_ALL, RUNS, EPOCHS = 20_000, 20, 50
RECIPES = ("digits-ce", "digits-opl")
VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 3, 2**31, 2**63, -(2**70), 10**400, 0.5, -0.0, 1e308, -1e308, 5e-324, float("nan"),
    float("inf"), float("-inf"), "", " ", "x", "0", "nan", "../../x", "/etc/passwd", "a\0b", "\x1b[31mred", "\ud800",
    "[/red]", "[bold red]cat", "<script>alert(1)</script>", "{{ 7 * 7 }}", "%s%n", "é" * 300, "x" * 10_000, [], [[]],
    [None], [1, "a"], [float("nan")], [[1, 2], [3]], list(range(2000)), {}, {"": {}}, {"a": {"b": []}},
)  # fmt: skip
KEYS = ("", "x", "test/top1", "seed", "name", "kind", "a\0b", "\ud800", "__class__", "epochs", "test/" + "x" * 500)
FILES = (
    "recipe.json", "result.json", "splits.json", "noise.json", "metrics.jsonl", "measures/geometry.json", "test.npz",
)  # fmt: skip
ARRAYS = {  # what an array is replaced by
    "empty": lambda old: old[:0],
    "0-d": lambda old: np.array(7),
    "flat": lambda old: old.ravel(),
    "one more axis": lambda old: old[None],
    "shorter": lambda old: old[: max(1, len(old) // 2)],
    "text": lambda old: np.array(["a\x1b[31m", "<script>"]),
    "nan": lambda old: np.full(old.shape, np.nan),
    "infinite": lambda old: np.full(old.shape, np.inf),
    "huge": lambda old: np.full(old.shape, 2**62),
    "negative": lambda old: np.full(old.shape, -5),
    "complex": lambda old: old.astype(complex),
    "booleans": lambda old: old.astype(bool),
    "dates": lambda old: np.zeros(old.shape, "datetime64[s]"),
    "records": lambda old: np.zeros(old.shape, [("a", "i4")]),
    "zeros": np.zeros_like,
    "gone": lambda old: None,
}
COMMANDS = (
    "check runs", "report runs", "results add runs --to results",
    "results write --records results --file RESULTS.md --pages no --readme no",
)  # fmt: skip


def write_base(folder: Path) -> None:
    """Finished runs with every kind of file."""
    for name in RECIPES:
        for seed in range(RUNS // len(RECIPES)):
            result = {"epochs": EPOCHS, "selection": "last", "start": "scratch"}
            path = write_finished(folder, name, seed, result=result)
            chance = np.random.default_rng(seed)
            outputs = _outputs(chance, 10, 8, 0.3, 2.0)
            rows = {name: array if name == "similarity" else array[:60] for name, array in outputs.items()}
            np.savez_compressed(path / "test.npz", **rows)
            records = [{**_record(n, EPOCHS, 0.0, 0.3, chance), "images_per_second": 9.0} for n in range(EPOCHS)]
            (path / "metrics.jsonl").write_text(metric_lines(records))
            dump(path / "noise.json", {"matrix": [[0.9, 0.1], [0.2, 0.8]], "rates": {"noise/rate": 0.15}})
            (path / "measures").mkdir()
            numbers = {"geometry/s": 0.9, "episodes/5-way-1-shot": 51.0}
            dump(path / "measures/geometry.json", {"numbers": numbers, "settings": {"images": 40}, "members": {}})
            vouch(path)


def cases(scratch: Path, share: float) -> Iterator[Case]:
    """Folders of runs with one changed value each."""
    write_base(scratch / "base")
    for number in range(VALUES_IN_ALL // RUNS):
        yield Case(f"folder {number}", lambda out, n=number: attack(out, scratch / "base", random.Random(n)), RUNS)


def attack(out: Path, base: Path, chance: random.Random) -> Verdict:
    """Change a value of every run, and run all commands."""
    os.fsync = lambda number: None  # thousands of folders that nobody keeps
    shutil.copytree(base, out / "runs")
    (out / "RESULTS.md").write_text("<!-- opl results: demo small -->\n<!-- end -->\n")
    changes = [change_run(path.parent, chance) for path in sorted((out / "runs").rglob("done"))]
    damaged = None
    for argv in COMMANDS:
        ended = call(argv, out)
        if argv.startswith("check") and ended.code == 1:
            damaged = ended  # it has told which run is damaged
        elif ended.code:  # one bad run must not hide the others
            return Verdict(ended.fault or "lost", f"opl {argv}: {changes}", ended)
        if ended.fault or "\x1b" in ended.output:
            return Verdict(ended.fault or "execution", f"opl {argv}: {changes}", ended)
    return Verdict("refused" if damaged else "right", ended=damaged)


def change_run(path: Path, chance: random.Random) -> str:
    """Change one value of a run, and make its checksums valid again."""
    name = chance.choice(FILES)
    file = path / name
    if name == "test.npz":
        data, what = change_arrays(file.read_bytes(), chance)
        file.write_bytes(data)
    elif name == "metrics.jsonl":
        records = [json.loads(line) for line in file.read_text().splitlines()]
        record = chance.choice(records)
        record.pop("check", None)
        what = change_json(record, chance)
        file.write_text(metric_lines(records))
    else:
        content = load(file)
        what = change_json(content, chance)
        dump(file, content)
    vouch(path)
    return f"{path.parent.name}/{path.name}/{name}: {what}"


def places(content: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of all values in a JSON object."""
    values = content[:3] if isinstance(content, list) else ()
    for key, value in content.items() if isinstance(content, dict) else enumerate(values):
        yield (*path, key)
        yield from places(value, (*path, key))


def change_json(content: Any, chance: random.Random) -> str:
    """Replace, delete or add one value; return a description."""
    *parents, key = chance.choice(list(places(content)))
    for parent in parents:
        content = content[parent]
    kind, value = chance.random(), chance.choice(VALUES)
    if kind < 0.1:
        del content[key]
        return f"without {(*parents, key)}"
    if kind < 0.2 and isinstance(content, dict):
        key = chance.choice(KEYS)
    content[key] = value
    return f"{(*parents, key)} = {value!r:.60}"


def change_arrays(data: bytes, chance: random.Random) -> tuple[bytes, str]:
    """Replace one array of a file by another type, shape or content, or leave it out."""
    with np.load(io.BytesIO(data)) as file:
        arrays = dict(file)
    name, kind = chance.choice(sorted(arrays)), chance.choice(sorted(ARRAYS))
    arrays[name] = ARRAYS[kind](arrays[name])
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **{name: array for name, array in arrays.items() if array is not None})
    return buffer.getvalue(), f"{name} {kind}"
