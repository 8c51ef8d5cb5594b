"""What a run folder holds, read without the code under test."""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np

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
        "result": read_json(folder / "result.json"),
        "splits": read_json(folder / "splits.json"),
        "noise": (read_json(folder / "noise.json"), arrays(folder / "noise.npz")),
        "test": arrays(folder / "test.npz"),
        "done": (folder / "done").is_file(),
        **{f"measure {f.stem}": (read_json(f), arrays(f.with_suffix(".npz"))) for f in folder.glob("measures/*.json")},
    }


def differences(first: dict[str, Any], second: dict[str, Any]) -> list[str]:
    """The names of what differs between two snapshots."""
    return [name for name in sorted({*first, *second}) if first.get(name) != second.get(name)]


def file_names(folder: Path) -> set[str]:
    """The relative paths of all files below a folder, without logs."""
    return {
        os.path.relpath(os.path.join(parent, file), folder)
        for parent, _, files in os.walk(folder)
        for file in files
        if file not in TRANSIENT
    }
