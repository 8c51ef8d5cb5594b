"""Ways to damage a file, and what a run folder holds, read without the code under test."""

import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

Damage = Callable[[Path, Path], object]
"""Damages a file, given the same file of another run."""


def _edit(change: Callable[[bytes], bytes], *suffixes: str) -> Damage:
    def damage(file: Path, _: Path) -> None:
        if not suffixes or file.suffix in suffixes:
            file.write_bytes(change(file.read_bytes()))

    return damage


def flip(data: bytes, share: float, bit: int) -> bytes:
    """Flip one bit."""
    index = min(len(data) - 1, int(share * len(data)))
    return data[:index] + bytes([data[index] ^ 1 << bit]) + data[index + 1 :] if data else data


def _replace(make: Damage) -> Damage:
    return lambda file, other: (file.unlink(), make(file, other))


def _swap(*suffixes: str) -> Damage:
    def damage(file: Path, other: Path) -> None:
        for suffix in suffixes:
            if other.with_name(other.name + suffix).is_file():
                shutil.copyfile(other.with_name(other.name + suffix), file.with_name(file.name + suffix))

    return damage


def _change_digit(data: bytes) -> bytes:
    changed = re.sub(rb"\d\.\d{4}", lambda match: match[0][:-1] + b"%d" % (9 - int(match[0][-1:])), data, count=1)
    whole = re.sub(rb"(?<=: )\d", lambda match: b"%d" % (9 - int(match[0])), data, count=1)
    return changed if changed != data else whole


def _second_line(data: bytes, times: int) -> bytes:
    lines = data.splitlines(keepends=True)
    return b"".join([*lines[:1], *lines[1:2] * times, *lines[2:]])


DAMAGES: dict[str, Damage] = {
    "a bit flipped at the start": _edit(lambda data: flip(data, 0.0, 1)),
    "a bit flipped in the middle": _edit(lambda data: flip(data, 0.5, 0)),
    "a bit flipped at three quarters": _edit(lambda data: flip(data, 0.75, 2)),
    "a bit flipped at the end": _edit(lambda data: flip(data, 1.0, 4)),
    "cut in half": _edit(lambda data: data[: len(data) // 2]),
    "last bytes missing": _edit(lambda data: data[:-3]),
    "emptied": _edit(lambda data: b""),
    "zeroed": _edit(lambda data: bytes(len(data))),
    "bytes appended": _edit(lambda data: data + b"\x00\xff{}\n"),
    "deleted": _replace(lambda file, _: None),
    "replaced by text": _edit(lambda data: b"text " * 40),
    "replaced by the file of another run": _swap(""),
    "replaced by the file of another run and its checksum": _swap("", ".sha256"),
    "a digit changed": _edit(_change_digit, ".json", ".jsonl"),
    "a line missing": _edit(lambda data: _second_line(data, 0), ".jsonl"),
    "a line twice": _edit(lambda data: _second_line(data, 2), ".jsonl"),
    "replaced by a folder": _replace(lambda file, _: file.mkdir()),
    "replaced by a pipe": _replace(lambda file, _: os.mkfifo(file)),
    "replaced by a link to the file of another run": _replace(lambda file, other: file.symlink_to(other)),
    "replaced by a link to itself": _replace(lambda file, _: file.symlink_to(file.name)),
    "replaced by a link to an endless file": _replace(lambda file, _: file.symlink_to("/dev/zero")),
}
VISIBLE = (
    "cut in half", "emptied", "zeroed", "deleted", "replaced by text", "replaced by a folder", "replaced by a pipe",
    "replaced by a link to itself", "replaced by a link to an endless file",
)  # fmt: skip
"""Damage that every reader can see."""

IGNORED = ("seconds", "images_per_second", "started", "sha256", "sum", "check")  # differ between equal runs
TRANSIENT = ("log.txt", "error.json")


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


def arrays(file: Path) -> Any:
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
        **{f"{name}.npz": arrays(folder / f"{name}.npz") for name in ("noise", "test")},
        "done": (folder / "done").is_file(),
        **{f"measure {f.stem}": (read_json(f), arrays(f.with_suffix(".npz"))) for f in folder.glob("measures/*.json")},
    }


def differences(first: dict[str, Any], second: dict[str, Any]) -> list[str]:
    """The names of what differs between two snapshots."""
    return [name for name in sorted({*first, *second}) if first.get(name) != second.get(name)]


def file_names(folder: Path) -> set[str]:
    """The relative paths of all files below a folder, without logs."""
    places = [Path(parent) / file for parent, _, files in os.walk(folder) for file in files if file not in TRANSIENT]
    return {str(place.relative_to(folder)) for place in places}
