"""What a run folder holds, read without the code under test."""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np

TIMED = ("seconds", "images_per_second", "started")
TRANSIENT = ("log.txt", "error.json")


def sha(file: Path) -> str:
    """The SHA-256 of a regular file; empty if there is none."""
    return hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else ""


def plain(value: Any) -> Any:
    """A value of a JSON file without times and checksums, which differ between equal runs."""
    if isinstance(value, dict):
        return {name: plain(part) for name, part in value.items() if name not in (*TIMED, "sha256", "sum", "check")}
    return [plain(part) for part in value] if isinstance(value, list) else value


def read_json(file: Path) -> Any:
    """A JSON file; None if there is none, or it is damaged."""
    try:
        return plain(json.loads(file.read_text())) if file.is_file() else None
    except ValueError:
        return None


def epochs(folder: Path) -> list[Any]:
    """The numbers of every line of `metrics.jsonl`, without times; a line that is no JSON stays a text."""
    file = folder / "metrics.jsonl"
    lines = file.read_text(errors="replace").splitlines() if file.is_file() else []
    found: list[Any] = []
    for line in lines:
        try:
            record = json.loads(line)
            found.append({name: value for name, value in plain(record).items() if not isinstance(value, str)})
        except (ValueError, AttributeError):
            found.append(line)
    return found


def arrays(file: Path) -> Any:
    """The checksum of each array in a file; None if it cannot be read."""
    try:
        with np.load(file, allow_pickle=False) as content:
            return {name: hashlib.sha256(content[name].tobytes()).hexdigest() for name in sorted(content)}
    except Exception:  # a damaged file raises many kinds of errors
        return None


def snapshot(folder: Path) -> dict[str, Any]:
    """Everything that two equal runs have in common: weights, numbers of every epoch, results, arrays, measures."""
    measures = sorted(folder.glob("measures/*.json"))
    return {
        "weights": sha(folder / "model.safetensors"),
        "epochs": epochs(folder),
        "result": read_json(folder / "result.json"),
        "splits": read_json(folder / "splits.json"),
        "noise": (read_json(folder / "noise.json"), arrays(folder / "noise.npz")),
        "test": arrays(folder / "test.npz"),
        "done": (folder / "done").is_file(),
        **{f"measure {file.stem}": (read_json(file), arrays(file.with_suffix(".npz"))) for file in measures},
    }


def differences(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """The names of what differs between two snapshots."""
    return [name for name in sorted({*one, *other}) if one.get(name) != other.get(name)]


def names(folder: Path) -> set[str]:
    """The paths of all files below a folder, without logs."""
    found = set()
    for place, _, files in os.walk(folder):
        found |= {os.path.relpath(os.path.join(place, file), folder) for file in files if file not in TRANSIENT}
    return found
