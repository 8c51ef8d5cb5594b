"""Folders of finished runs of the demo at real scales, written by hand in a moment, and read by plain JSON."""

import json
from pathlib import Path

from _vouched import vouch
from opl.experiments.paper import ITEMS, recipe
from opl.experiments.settings import to_json

ABOUT = {
    "opl": None,
    "baseline": {"kind": "CrossEntropy"},
    "versions": {"opl": "0.1.0", "torch": "2.13.0+cpu", "python": "3.11.7"},
    "commit": "06f8644cf3",
    "machine": {"system": "Linux-6.1", "processor": "x86_64", "cores": 2, "threads": 1, "accelerator": "none"},
    "started": "2026-11-15T21:00:44Z",
}
SPLITS = {"source": "scikit-learn", "train": 899, "val": [3, 1, 4], "test": 898, "class_names": list("0123456789")}


def write_finished(out: Path, name: str = "digits-ce", seed: int = 0, top1: float = 97.0, **more) -> Path:
    """One finished run with its checksums; `recipe`, `about`, `result` and `splits` take changes, `weights` bytes."""
    path = out / name / f"seed-{seed}"
    path.mkdir(parents=True)
    scale = more.get("scale", "small")
    known = any(item.has(name, scale) for item in ITEMS.values())
    settings = to_json(recipe(name, scale) if known else recipe("digits-ce", "small"))
    about = {**settings, "name": name, "seed": seed, "scale": scale, **more.get("recipe", {})}
    numbers = {"test/top1": top1, "test/s": 0.9 + seed / 100, "test/d": 0.5, "scale": scale, "seconds": 61.5 + seed}
    dump(path / "recipe.json", {"recipe": about, **ABOUT, **more.get("about", {})})
    dump(path / "result.json", {**numbers, **more.get("result", {})})
    dump(path / "splits.json", {**SPLITS, **more.get("splits", {})})
    (path / "model.safetensors").write_bytes(more.get("weights", f"{name} {seed} {top1}".encode()))
    return vouch(path)


def write_measure(path: Path, name: str, numbers: dict, **more) -> None:
    """A measure of a run, as `opl evaluate` leaves it."""
    (path / "measures").mkdir(exist_ok=True)
    dump(path / "measures" / f"{name}.json", {"numbers": numbers, "commit": "06f8644cf3", **more})
    vouch(path)


def dump(file: Path, content: dict) -> None:
    """Write JSON."""
    file.write_text(json.dumps(content))


def load(file: Path) -> dict:
    """Read JSON."""
    return json.loads(file.read_text())
