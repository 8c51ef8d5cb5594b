"""Kinds of damage to one file."""

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

Damage = Callable[[Path, Path], bool]
"""Damages a file, given the same file of another run; returns False if it cannot be damaged in this way."""


def _flip(share: float, bit: int) -> Damage:
    def damage(file: Path, _: Path) -> bool:
        data = bytearray(file.read_bytes())
        if data:
            data[min(len(data) - 1, int(share * len(data)))] ^= 1 << bit
            file.write_bytes(data)
        return bool(data)

    return damage


def _cut(keep: Callable[[bytes], bytes]) -> Damage:
    def damage(file: Path, _: Path) -> bool:
        data = file.read_bytes()
        file.write_bytes(keep(data))
        return keep(data) != data

    return damage


def _delete(file: Path, _: Path) -> bool:
    file.unlink()
    return True


def _swap(file: Path, other: Path) -> bool:
    if not other.is_file() or other.read_bytes() == file.read_bytes():
        return False
    shutil.copyfile(other, file)
    return True


def _swap_with_sum(file: Path, other: Path) -> bool:
    beside, theirs = (path.with_name(f"{path.name}.sha256") for path in (file, other))
    if not (beside.is_file() and theirs.is_file() and _swap(file, other)):
        return False
    shutil.copyfile(theirs, beside)
    return True


def _digits(file: Path, _: Path) -> bool:
    """Change a digit of the first long number of a text."""
    if file.suffix not in (".json", ".jsonl"):
        return False
    text = file.read_text()
    changed = re.sub(r"\d\.\d{4}", lambda found: f"{found[0][:-1]}{9 - int(found[0][-1])}", text, count=1)
    if changed == text:
        changed = re.sub(r"(?<=: )\d", lambda found: str(9 - int(found[0])), text, count=1)
    file.write_text(changed)
    return changed != text


def _middle_line(times: int) -> Damage:
    def damage(file: Path, _: Path) -> bool:
        lines = file.read_bytes().splitlines(keepends=True)
        if file.suffix != ".jsonl" or len(lines) < 2:
            return False
        file.write_bytes(b"".join([lines[0], *[lines[1]] * times, *lines[2:]]))
        return True

    return damage


def _directory(file: Path, _: Path) -> bool:
    file.unlink()
    file.mkdir()
    return True


def _fifo(file: Path, _: Path) -> bool:
    file.unlink()
    os.mkfifo(file)
    return True


def _link(file: Path, other: Path) -> bool:
    if not other.is_file() or other.read_bytes() == file.read_bytes():
        return False
    file.unlink()
    file.symlink_to(other)
    return True


def _loop(file: Path, _: Path) -> bool:
    file.unlink()
    file.symlink_to(file.name)
    return True


def _endless(file: Path, _: Path) -> bool:
    file.unlink()
    file.symlink_to("/dev/zero")
    return True


DAMAGES: dict[str, Damage] = {
    "a bit flipped at the start": _flip(0.0, 1),
    "a bit flipped in the middle": _flip(0.5, 0),
    "a bit flipped at three quarters": _flip(0.75, 2),
    "a bit flipped at the end": _flip(1.0, 4),
    "cut in half": _cut(lambda data: data[: len(data) // 2]),
    "its last bytes missing": _cut(lambda data: data[:-3]),
    "emptied": _cut(lambda data: b""),
    "zeros in place of its bytes": _cut(lambda data: bytes(len(data))),
    "bytes appended": _cut(lambda data: data + b"\x00\xff{}\n"),
    "deleted": _delete,
    "the file of another run": _swap,
    "the file of another run, with its checksum": _swap_with_sum,
    "a digit changed": _digits,
    "a line missing": _middle_line(0),
    "a line twice": _middle_line(2),
    "a folder in its place": _directory,
    "a pipe in its place": _fifo,
    "a link to the file of another run": _link,
    "a link to itself": _loop,
    "a link to an endless file": _endless,
}
