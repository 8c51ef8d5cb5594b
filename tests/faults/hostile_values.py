"""Random values in every file of finished runs and records, all with valid checksums.

A checksum shows that a file is complete, not that its values make sense: whoever writes a file can also write its
checksum. Every command must show, refuse or skip such a run in a sentence. Each folder has twenty runs with one changed
value each, since one bad run must not hide the others; commands are called in this process.
"""

import io
import json
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from hostile_trees import call

from _finished_runs import dump, load, write_finished
from _runs import _outputs, _record
from _vouched import metric_lines, vouch

SEEDS, EPOCHS = range(10), 50
RECIPES = ("digits-ce", "digits-opl")
VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 3, 2**31, 2**63, -(2**70), 10**400, 0.5, -0.0, 1e308, -1e308, 5e-324, float("nan"),
    float("inf"), float("-inf"), "", " ", "x", "0", "nan", "../../x", "/etc/passwd", "a\0b", "\x1b[31mred", "\ud800",
    "[/red]", "[bold red]cat", "<script>alert(1)</script>", "{{ 7 * 7 }}", "%s%n", "é" * 300, "x" * 10_000, [], [[]],
    [None], [1, "a"], [float("nan")], [[1, 2], [3]], list(range(2000)), {}, {"": {}}, {"a": {"b": []}},
)  # fmt: skip
KEYS = ("", "x", "test/top1", "seed", "name", "kind", "a\0b", "\ud800", "__class__", "epochs", "test/" + "x" * 500)
Change = tuple[str, str]
"""A file, and what was changed in it."""


def write_base(folder: Path) -> None:
    """Twenty finished runs with every kind of file."""
    for name in RECIPES:
        for seed in SEEDS:
            path = write_finished(
                folder, name, seed, result={"epochs": EPOCHS, "selection": "last", "start": "scratch"}
            )
            chance = np.random.default_rng(seed)
            np.savez_compressed(path / "test.npz", **_small(_outputs(chance, 10, 8, 0.3, 2.0)))
            records = [
                {**_record(epoch, EPOCHS, 0.0, 0.3, chance), "images_per_second": 9.0} for epoch in range(EPOCHS)
            ]
            (path / "metrics.jsonl").write_text(metric_lines(records))
            dump(path / "noise.json", {"matrix": [[0.9, 0.1], [0.2, 0.8]], "rates": {"noise/rate": 0.15}})
            (path / "measures").mkdir()
            numbers = {"geometry/s": 0.9, "episodes/5-way-1-shot": 51.0}
            dump(path / "measures/geometry.json", {"numbers": numbers, "settings": {"images": 40}, "members": {}})
            vouch(path)


def _small(arrays: dict[str, Any]) -> dict[str, Any]:
    return {name: value if name == "similarity" else value[:60] for name, value in arrays.items()}


def places(content: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of all values in a JSON object."""
    pairs = (
        content.items() if isinstance(content, dict) else enumerate(content[:3]) if isinstance(content, list) else ()
    )
    for key, value in pairs:
        yield (*path, key)
        yield from places(value, (*path, key))


def change_json(content: Any, chance: random.Random) -> tuple[Any, str]:
    """Replace, delete or add one value; return a description."""
    path = chance.choice(list(places(content)))
    inside = content
    for key in path[:-1]:
        inside = inside[key]
    kind, value = chance.random(), chance.choice(VALUES)
    if kind < 0.1:
        del inside[path[-1]]
        return content, f"without {path}"
    if kind < 0.2 and isinstance(inside, dict):
        name = chance.choice(KEYS)
        inside[name] = value
        return content, f"{(*path[:-1], name)} added: {value!r:.60}"
    inside[path[-1]] = value
    return content, f"{path} = {value!r:.60}"


def change_arrays(data: bytes, chance: random.Random) -> tuple[bytes, str]:
    """Replace one array of a file by another type, shape or content, or leave it out."""
    with np.load(io.BytesIO(data)) as file:
        arrays = dict(file)
    name = chance.choice(sorted(arrays))
    old = arrays[name]
    options = {
        "empty": lambda: old[:0],
        "0-d": lambda: np.array(7),
        "flat": lambda: old.ravel(),
        "one more axis": lambda: old[None],
        "shorter": lambda: old[: max(1, len(old) // 2)],
        "text": lambda: np.array(["a\x1b[31m", "<script>"]),
        "nan": lambda: np.full(old.shape, np.nan),
        "infinite": lambda: np.full(old.shape, np.inf),
        "huge": lambda: np.full(old.shape, 2**62),
        "negative": lambda: np.full(old.shape, -5),
        "complex": lambda: old.astype(complex),
        "booleans": lambda: old.astype(bool),
        "dates": lambda: np.zeros(old.shape, "datetime64[s]"),
        "records": lambda: np.zeros(old.shape, [("a", "i4")]),
        "zeros": lambda: np.zeros_like(old),
    }
    kind = chance.choice([*options, "gone"])
    if kind == "gone":
        del arrays[name]
    else:
        arrays[name] = options[kind]()
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue(), f"{name} {kind}"


FILES = (
    "recipe.json",
    "result.json",
    "splits.json",
    "noise.json",
    "metrics.jsonl",
    "measures/geometry.json",
    "test.npz",
)


def change_run(path: Path, chance: random.Random) -> Change:
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
        _, what = change_json(record, chance)
        file.write_text(metric_lines(records))
    else:
        content, what = change_json(load(file), chance)
        dump(file, content)
    vouch(path)
    return f"{path.parent.name}/{path.name}/{name}", what


def fuzz_runs(base: Path, scratch: Path, count: int, chance: random.Random) -> list[str]:
    """Change `count` values of runs, twenty per folder, and run all commands; return what went wrong."""
    faults = []
    for number in range(-(-count // (len(RECIPES) * len(SEEDS)))):
        root = scratch / str(number)
        shutil.copytree(base, root / "runs")
        changes = [change_run(path.parent, chance) for path in sorted((root / "runs").rglob("done"))]
        commands = [["check", f"{root}/runs"], ["report", f"{root}/runs"]]
        commands += [["results", "add", f"{root}/runs", "--to", f"{root}/results"]]
        records = ["--records", f"{root}/results"]
        commands += [
            ["results", "write", *records, "--file", _document(root), "--pages", f"{root}/no", "--readme", "no"]
        ]
        faults += [f"{fault}: {changes}" for argv in commands for fault in faults_of(argv)]
        shutil.rmtree(root)
    return faults


def _document(root: Path) -> str:
    (root / "RESULTS.md").write_text("<!-- opl results: demo small -->\n<!-- end -->\n")
    return str(root / "RESULTS.md")


def faults_of(argv: list[str]) -> list[str]:
    """What is wrong with the end of a command."""
    code, text = call(argv)
    wrong = code not in (0, 1, 2) or "Traceback" in text or "defect of opl" in text or "\x1b" in text
    return [f"opl {' '.join(argv[:2])}: {code}: {text[-500:]}"] * wrong
