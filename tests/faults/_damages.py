"""Ways to damage a file."""

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

Damage = Callable[[Path, Path], object]
"""Damages a file, given the same file of another run."""


def _edit(change: Callable[[bytes], bytes], suffixes: tuple[str, ...] = ()) -> Damage:
    def damage(file: Path, _: Path) -> None:
        if not suffixes or file.suffix in suffixes:
            file.write_bytes(change(file.read_bytes()))

    return damage


def _flip(share: float, bit: int) -> Damage:
    def change(data: bytes) -> bytes:
        index = min(len(data) - 1, int(share * len(data)))
        return data[:index] + bytes([data[index] ^ 1 << bit]) + data[index + 1 :] if data else data

    return _edit(change)


def _replace(make: Callable[[Path, Path], object]) -> Damage:
    def damage(file: Path, other: Path) -> None:
        file.unlink()
        make(file, other)

    return damage


def _swap(file: Path, other: Path) -> None:
    if other.is_file():
        shutil.copyfile(other, file)


def _swap_with_sum(file: Path, other: Path) -> None:
    for name in (file.name, f"{file.name}.sha256"):
        _swap(file.with_name(name), other.with_name(name))


def _change_digit(data: bytes) -> bytes:
    changed = re.sub(rb"\d\.\d{4}", lambda match: match[0][:-1] + b"%d" % (9 - int(match[0][-1:])), data, count=1)
    whole = re.sub(rb"(?<=: )\d", lambda match: b"%d" % (9 - int(match[0])), data, count=1)
    return changed if changed != data else whole


def _second_line(times: int) -> Callable[[bytes], bytes]:
    def change(data: bytes) -> bytes:
        lines = data.splitlines(keepends=True)
        return b"".join([*lines[:1], *lines[1:2] * times, *lines[2:]])

    return change


DAMAGES: dict[str, Damage] = {
    "a bit flipped at the start": _flip(0.0, 1),
    "a bit flipped in the middle": _flip(0.5, 0),
    "a bit flipped at three quarters": _flip(0.75, 2),
    "a bit flipped at the end": _flip(1.0, 4),
    "cut in half": _edit(lambda data: data[: len(data) // 2]),
    "last bytes missing": _edit(lambda data: data[:-3]),
    "emptied": _edit(lambda data: b""),
    "zeroed": _edit(lambda data: bytes(len(data))),
    "bytes appended": _edit(lambda data: data + b"\x00\xff{}\n"),
    "deleted": _replace(lambda file, _: None),
    "replaced by text": _edit(lambda data: b"text " * 40),
    "replaced by the file of another run": _swap,
    "replaced by the file of another run and its checksum": _swap_with_sum,
    "a digit changed": _edit(_change_digit, (".json", ".jsonl")),
    "a line missing": _edit(_second_line(0), (".jsonl",)),
    "a line twice": _edit(_second_line(2), (".jsonl",)),
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
