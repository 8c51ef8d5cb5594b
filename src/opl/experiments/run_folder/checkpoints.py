"""Checkpoints of a run: the newest and the one before it, and the best weights, each verified by a SHA-256."""

import hashlib
import os
import warnings
from collections.abc import Collection
from pathlib import Path
from typing import Any

from ...errors import DamagedError, OplWarning
from ..files import pack, read_limited, unpack, write_whole
from .manifest import damaged, settings_of

CHECKPOINT, BEFORE, NEW, BEST = "checkpoint.pt", "checkpoint-before.pt", "checkpoint-new.pt", "best.pt"


def save(folder: Path, state: dict[str, Any]) -> None:
    """Write a checkpoint; the previous one is kept as `checkpoint-before.pt`.

    A checkpoint is valid if its checksum is any of the stored ones, and the new list includes the earlier checksums: at
    every moment between these renames, and after the next ones, all checkpoints on disk are valid.
    """
    data = pack(state)
    new, current, before = (folder / name for name in (NEW, CHECKPOINT, BEFORE))
    sums = [stored for path in (before, current, new) for stored in _sums(path)]
    write_whole(new, data)
    write_whole(_sum_file(new), "\n".join([*dict.fromkeys([*sums, _sum_of(folder, data)])][-3:]).encode())
    _rename(folder)


def settle(folder: Path) -> None:
    """Complete a `save` whose process was killed; delete a checkpoint without its checksum."""
    new = folder / NEW
    written, listed = new.exists(), _sum_file(new).exists()
    if written and listed:
        _rename(folder)
    elif written:
        new.unlink()
    elif listed:  # the last rename is missing
        os.replace(_sum_file(new), _sum_file(folder / CHECKPOINT))


def _rename(folder: Path) -> None:
    new, current, before = (folder / name for name in (NEW, CHECKPOINT, BEFORE))
    for source, target in ((current, before), (new, current)):
        if source.exists():
            os.replace(source, target)
        if _sum_file(source).exists():
            os.replace(_sum_file(source), _sum_file(target))


def load(folder: Path) -> dict[str, Any] | None:
    """Return the newest valid checkpoint; None if there is none. A warning names damaged and missing checkpoints.

    If the best weights are damaged, training starts over: they cannot be computed again.
    """
    paths = [folder / name for name in (NEW, CHECKPOINT, BEFORE)]
    sums = {stored for path in paths for stored in _sums(path)}
    states = {path.name: _state(path, sums) for path in paths}
    newest = max((state for state in states.values() if state), key=position, default=None)
    wrong = [name for name, state in states.items() if name != NEW and state is None and (folder / name).exists()]
    if states[NEW] is None and not (folder / CHECKPOINT).exists() and (exists(folder) or _has_epochs(folder)):
        wrong.insert(0, CHECKPOINT)
    if newest is not None and _is_wrong(folder / BEST, newest.get("best", -1.0) >= 0):
        wrong, newest = [*wrong, BEST], None
    if wrong:
        epoch, step = position(newest) if newest else (0, 0)
        inside = f" and {step} steps" if step else ""
        cure = f"resuming from a checkpoint after {epoch} epochs{inside}" if newest else "starting over"
        warnings.warn(OplWarning(f"{' and '.join(wrong)} in {folder} cannot be used: {cure}."), stacklevel=3)
    return newest


def exists(folder: Path) -> bool:
    """Return whether a checkpoint is, or was, in the folder."""
    return any((folder / name).exists() for name in (CHECKPOINT, BEFORE, f"{CHECKPOINT}.sha256"))


def _has_epochs(folder: Path) -> bool:
    """Return whether `metrics.jsonl` has two records: the first checkpoint is written before the second record."""
    try:
        return read_limited(folder / "metrics.jsonl", links=False).count(b"\n") > 1
    except OSError:
        return False


def save_best(folder: Path, state: dict[str, Any]) -> None:
    """Save the best weights and their SHA-256; while they are written, the SHA-256 of the earlier ones is valid too."""
    data = pack(state)
    file, new = folder / BEST, _sum_of(folder, data)
    write_whole(_sum_file(file), "\n".join([*_sums(file)[-1:], new]).encode())
    write_whole(file, data)


def load_best(folder: Path) -> dict[str, Any]:
    """Load the best weights; raise if they are damaged."""
    file = folder / BEST
    try:
        data = read_limited(file, links=False)
    except OSError as error:
        raise damaged(folder, BEST, f"cannot be read ({error.strerror})") from error
    if _sum_of(folder, data) not in _sums(file):
        raise damaged(folder, BEST, "is not what the run wrote")
    return unpack(data)


def position(state: dict[str, Any]) -> tuple[int, int]:
    """Return the position of a checkpoint: epochs done, and steps of the next epoch."""
    return int(state["epoch"]), int(state.get("step", 0))


def faults(folder: Path) -> dict[str, str]:
    """Return what is wrong with each invalid checkpoint, by name."""
    sums = {stored for name in (NEW, CHECKPOINT, BEFORE) for stored in _sums(folder / name)}
    wrong = [name for name in (CHECKPOINT, BEFORE) if _is_wrong(folder / name, accepted=sums)]
    wrong += [BEST] if _is_wrong(folder / BEST) else []
    return dict.fromkeys(wrong, "is not what the run wrote")


def _state(path: Path, sums: set[str]) -> dict[str, Any] | None:
    """Load a checkpoint; return None if it is missing or damaged."""
    try:
        data = read_limited(path, links=False)
        return unpack(data) if _sum_of(path.parent, data) in sums else None
    except (OSError, DamagedError):
        return None


def _is_wrong(path: Path, expected: bool = False, accepted: Collection[str] = ()) -> bool:
    """Return whether a file is not what the run wrote; a missing file is wrong if it is expected, or has a checksum."""
    sums = set(accepted) | set(_sums(path))
    try:
        return _sum_of(path.parent, read_limited(path, links=False)) not in sums
    except FileNotFoundError:
        return expected or _sum_file(path).exists()
    except OSError:
        return True


def _sum_of(folder: Path, data: bytes) -> str:
    """Hash the run's settings followed by the file with SHA-256: the checkpoint of another run never matches."""
    total = hashlib.sha256(settings_of(folder))
    total.update(data)
    return total.hexdigest()


def _sum_file(path: Path) -> Path:
    return path.with_name(f"{path.name}.sha256")


def _sums(path: Path) -> list[str]:
    """Return the stored checksums of a file; none if they cannot be read."""
    try:
        return read_limited(_sum_file(path), 4096, links=False).decode(errors="replace").split()
    except OSError:
        return []
