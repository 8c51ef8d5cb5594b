"""Values that leave the machine: without the folders in absolute paths, which name the user and the machine."""

import re
from collections.abc import Iterator, Sequence
from pathlib import PureWindowsPath
from typing import Any, TypeVar

PATH = re.compile(r"(?<![\w.~/\\-])(?:~[\w.-]*|[A-Za-z]:)?(?:[/\\][^\s/\\'\",;:()<>|]+){2,}")
QUOTED = re.compile(r"(?<=')(?:/|~|[A-Za-z]:\\)[^']{0,1024}(?=')")  # in quotes it may contain spaces
MOST = 100  # paths that are looked for in other texts
T = TypeVar("T")


def portable(value: T) -> T:
    """A value of JSON without the folders in absolute paths, which name the user and the machine.

    Example:
        >>> portable({"weights": "/home/jane/w.pth", "changes": ["weights /home/jane/w.pth (recipe: )"]})
        {'weights': 'w.pth', 'changes': ['weights w.pth (recipe: )']}
    """
    paths = sorted({text for text in _texts(value) if _is_path(text)}, key=len, reverse=True)[:MOST]
    shortened: T = _without(value, paths)
    return shortened


def _without(value: Any, paths: Sequence[str]) -> Any:
    if isinstance(value, dict):
        return {name: _without(part, paths) for name, part in value.items()}
    if isinstance(value, list):
        return [_without(part, paths) for part in value]
    if not isinstance(value, str):
        return value
    for path in paths:
        if value == path or path.startswith("~") or re.search(r"[/\\].*[/\\]", path):  # "/" is a part of other texts
            value = value.replace(path, _last(path))
    return PATH.sub(lambda match: _last(match[0]), QUOTED.sub(lambda match: _last(match[0]), value))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _texts(part)


def _is_path(text: str) -> bool:
    """Whether a text is an absolute path, or one that leads out of the working folder."""
    path = PureWindowsPath(text)  # which reads both separators
    return len(text) < 4096 and (bool(path.root) or ".." in path.parts or text.startswith("~"))


def _last(path: str) -> str:
    return PureWindowsPath(path).name
