"""Folders as values, ways to damage files, and what a run folder holds, read without the code under test."""

import hashlib
import io
import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from _image_files import encoded

Files = dict[str, Any]
"""The contents of a folder by name: as for `put`, or a function of the folder that returns one."""
PIPE, FOLDER = object(), object()
SHARD, TEST_SHARD = "train-00000-of-00001.parquet", "test-00000-of-00001.parquet"


class Link(str):
    """A link to this path."""


def put(file: Path, content: Any) -> None:
    """Replace a file by bytes, a `Link`, a `PIPE` or a `FOLDER`; by nothing if the content is None."""
    if file.is_dir() and not file.is_symlink():
        shutil.rmtree(file)
    file.unlink(missing_ok=True)
    file.parent.mkdir(parents=True, exist_ok=True)
    if content is FOLDER:
        file.mkdir()
    elif content is PIPE:
        os.mkfifo(file)
    elif content is not None:
        file.symlink_to(content) if isinstance(content, Link) else file.write_bytes(content)


def write(folder: Path, files: Files) -> None:
    """Write the files of a folder."""
    for name, content in files.items():
        put(folder / name, content(folder) if callable(content) else content)


def for_parts(**contents: Any) -> Files:
    """Files whose names have `{}` in place of a part: train, val and test."""
    return {name.format(part): data for name, data in contents.items() for part in ("train", "val", "test")}


def random_image(seed: int, size: int = 16) -> Image.Image:
    """A random image."""
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (size, size, 3), dtype=np.uint8))


def domains(seed: int = 0, per_class: int = 4) -> Files:
    """Two domains with three classes each: `<domain>/<class>/<image>.png`."""
    names = [f"{domain}/class-{label}/{i}.png" for domain in "ab" for label in range(3) for i in range(per_class)]
    return {name: encoded(random_image(1000 * seed + number)) for number, name in enumerate(names)}


def parquet(columns: dict[str, Any], features: dict[str, Any] | None = None, **options: Any) -> bytes:
    """A Parquet file, with features of `datasets` in its schema if they are given."""
    table = pa.table({name: v if isinstance(v, pa.Array) else pa.array(v) for name, v in columns.items()})
    if features is not None:
        table = table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})})
    stream = io.BytesIO()
    pq.write_table(table, stream, **options)
    return stream.getvalue()


def _flip(data: bytes, share: float, bit: int) -> bytes:
    """Flip one bit."""
    index = min(len(data) - 1, int(share * len(data)))
    return data[:index] + bytes([data[index] ^ 1 << bit]) + data[index + 1 :] if data else data


def _change_digit(data: bytes) -> bytes:
    changed = re.sub(rb"\d\.\d{4}", lambda match: match[0][:-1] + b"%d" % (9 - int(match[0][-1:])), data, count=1)
    whole = re.sub(rb"(?<=: )\d", lambda match: b"%d" % (9 - int(match[0])), data, count=1)
    return changed if changed != data else whole


def _second_line(data: bytes, times: int) -> bytes:
    lines = data.splitlines(keepends=True)
    return b"".join([*lines[:1], *lines[1:2] * times, *lines[2:]])


DAMAGES: dict[str, Callable[[bytes, Path, Path], Any]] = {  # of the content, the file, and the file of another run
    "a bit flipped at the start": lambda data, *_: _flip(data, 0.0, 1),
    "a bit flipped in the middle": lambda data, *_: _flip(data, 0.5, 0),
    "a bit flipped at three quarters": lambda data, *_: _flip(data, 0.75, 2),
    "a bit flipped at the end": lambda data, *_: _flip(data, 1.0, 4),
    "cut in half": lambda data, *_: data[: len(data) // 2],
    "last bytes missing": lambda data, *_: data[:-3],
    "emptied": lambda *_: b"",
    "zeroed": lambda data, *_: bytes(len(data)),
    "bytes appended": lambda data, *_: data + b"\x00\xff{}\n",
    "deleted": lambda *_: None,
    "replaced by text": lambda *_: b"text " * 40,
    "replaced by the file of another run": lambda data, _, other: other.read_bytes() if other.is_file() else data,
    "replaced by the file of another run and its checksum": (
        lambda data, _, other: other.read_bytes() if other.is_file() else data
    ),
    "a digit changed": lambda data, file, _: _change_digit(data) if file.suffix in (".json", ".jsonl") else data,
    "a line missing": lambda data, file, _: _second_line(data, 0) if file.suffix == ".jsonl" else data,
    "a line twice": lambda data, file, _: _second_line(data, 2) if file.suffix == ".jsonl" else data,
    "replaced by a folder": lambda *_: FOLDER,
    "replaced by a pipe": lambda *_: PIPE,
    "replaced by a link to the file of another run": lambda _, __, other: Link(other),
    "replaced by a link to itself": lambda _, file, __: Link(file.name),
    "replaced by a link to an endless file": lambda *_: Link("/dev/zero"),
}


def damage(kind: str, file: Path, other: Path) -> None:
    """Damage a file, given the file of another run."""
    put(file, DAMAGES[kind](file.read_bytes(), file, other))
    listed = other.with_name(f"{other.name}.sha256")
    if kind.endswith("and its checksum") and listed.is_file():
        shutil.copyfile(listed, file.with_name(f"{file.name}.sha256"))


IGNORED = ("seconds", "images_per_second", "started", "sha256", "sum", "check")  # differ between equal runs


def without_times(value: Any) -> Any:
    """A value of a JSON file without times and checksums."""
    if isinstance(value, dict):
        return {name: without_times(part) for name, part in value.items() if name not in IGNORED}
    return [without_times(part) for part in value] if isinstance(value, list) else value


def read_json(file: Path) -> Any:
    """A JSON file without times; None if it is missing or damaged."""
    try:
        return without_times(json.loads(file.read_text())) if file.is_file() else None
    except ValueError:
        return None


def epochs(folder: Path) -> list[Any]:
    """The numbers of every line of `metrics.jsonl`; a line that is not JSON stays text."""
    file = folder / "metrics.jsonl"
    records: list[Any] = []
    for line in file.read_text(errors="replace").splitlines() if file.is_file() else []:
        try:
            record = without_times(json.loads(line))
            records.append({name: value for name, value in record.items() if not isinstance(value, str)})
        except (ValueError, AttributeError):
            records.append(line)
    return records


def _arrays(file: Path) -> Any:
    """The checksum of each array in a file; None if it cannot be read."""
    try:
        with np.load(file, allow_pickle=False) as content:
            return {name: hashlib.sha256(content[name].tobytes()).hexdigest() for name in sorted(content)}
    except Exception:  # a damaged file raises many kinds of errors
        return None


def checksum(file: Path) -> str:
    """The SHA-256 of a regular file; empty if there is none."""
    return hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else ""


def snapshot(folder: Path) -> dict[str, Any]:
    """Everything that two equal runs have in common: weights, metrics, results, arrays, measures."""
    return {
        "weights": checksum(folder / "model.safetensors"),
        "epochs": epochs(folder),
        **{name: read_json(folder / f"{name}.json") for name in ("result", "splits", "noise")},
        **{f"{name}.npz": _arrays(folder / f"{name}.npz") for name in ("noise", "test")},
        "done": (folder / "done").is_file(),
        **{f"measure {f.stem}": (read_json(f), _arrays(f.with_suffix(".npz"))) for f in folder.glob("measures/*.json")},
    }


def differences(first: dict[str, Any], second: dict[str, Any]) -> list[str]:
    """The names of what differs between two snapshots."""
    return [name for name in sorted({*first, *second}) if first.get(name) != second.get(name)]


def file_names(folder: Path) -> set[str]:
    """The relative paths of all files below a folder, without logs."""
    files = [Path(parent) / name for parent, _, names in os.walk(folder) for name in names]
    return {str(file.relative_to(folder)) for file in files if file.name not in ("log.txt", "error.json")}
