"""The manifest of a run folder, the SHA-256 of every file: `sums.json` during training, `done` once it is finished.

A new checksum is listed before its file is written, next to the checksum of the file that it replaces or a mark that
there is none yet, and alone afterwards: a process killed at any moment leaves no file that looks damaged, and no older
file is mistaken for the newest. The manifest has its own checksum.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from filelock import FileLock

from ...errors import DamagedError
from ..files import LARGEST, open_regular, parse_json, read_json, read_limited, sweep, write_whole

RUNNING, DONE, RECIPE = "sums.json", "done", "recipe.json"
NONE_YET = ""  # listed for a file that is about to be written for the first time
EDITING = 60.0  # seconds to wait for another process that changes the manifest
MOST_FACTS = 1 << 22  # bytes of a JSON file, whose parsed values may take 20 times as much memory
Sums = dict[str, list[str]]
"""The accepted checksums of each file, the newest last."""


class Manifest:
    """The checksums of one run folder.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> manifest = Manifest(folder)
        >>> manifest.write("result.json", b"{}")
        >>> manifest.read("result.json")
        b'{}'
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._known: tuple[Any, Sums] = None, {}  # the version of the manifest that was read last, and its content

    @property
    def finished(self) -> bool:
        """Whether the run is finished."""
        return (self.folder / DONE).exists()

    def sums(self) -> Sums:
        """Return the accepted checksums of every file; empty for a folder without a manifest."""
        file = self.folder / (DONE if self.finished else RUNNING)
        try:
            status = file.stat()
        except (FileNotFoundError, NotADirectoryError):
            return {}
        version = (file.name, status.st_ino, status.st_mtime_ns, status.st_size)
        if version != self._known[0]:
            self._known = version, self._read_sums(file)
        return dict(self._known[1])

    def _read_sums(self, file: Path) -> Sums:
        try:
            content = read_json(file, MOST_FACTS, links=False)
            sums = {str(name): [str(accepted) for accepted in listed] for name, listed in content["files"].items()}
            valid = content["sha256"] == _checksum(sums) and all(map(_is_inside, sums))
        except (OSError, ValueError, LookupError, TypeError, AttributeError):
            valid = False
        if not valid:
            raise damaged(self.folder, file.name, "is not a valid list of checksums")
        return sums

    def path(self, name: str) -> Path:
        """Return the path of a file of the run, which lies inside the folder and not behind a link."""
        if not _is_inside(name):
            raise damaged(self.folder, name, "is not a name inside the folder")
        parents = PurePosixPath(name).parents
        if any((self.folder / parent).is_symlink() for parent in parents if parent.name):
            raise damaged(self.folder, name, "is behind a link")
        return self.folder / name

    def write(self, name: str, data: bytes) -> None:
        """Write a file and its checksum."""
        self.write_all({name: data})

    def write_all(self, files: Mapping[str, bytes]) -> None:
        """Write files and list their checksums together."""
        with self._editing():
            sums = self.sums()
            new = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
            before = {name: self._settled(name, sums.get(name, [NONE_YET]))[-1] for name in files}
            self._store(sums | {name: [before[name], new[name]] for name in files})
            for name, data in files.items():
                write_whole(self.path(name), data)
            self._store(sums | {name: [new[name]] for name in files})

    def mend(self) -> None:
        """Clean up after a killed process: delete its temporary files, and keep one checksum per file, of its content.

        In a finished run all files are written while the manifest is locked, so no temporary file is in use.
        """
        with self._editing():
            sums = self.sums()
            for folder in {self.folder, *(self.path(name).parent for name in sums)}:
                sweep(folder)
            settled = {name: self._settled(name, accepted) for name, accepted in sums.items()}
            if settled != sums:
                self._store({name: accepted for name, accepted in settled.items() if accepted != [NONE_YET]})

    def _settled(self, name: str, accepted: list[str]) -> list[str]:
        """Return the checksum of the content if it is accepted, otherwise all accepted checksums."""
        actual = self._actual(name) if len(accepted) > 1 else ""
        return [actual] if len(accepted) > 1 and actual in accepted else accepted

    def remove(self, name: str) -> None:
        """Delete a file and its checksum."""
        with self._editing():
            sums = self.sums()
            if accepted := sums.pop(name, None):
                self._store(sums | {name: [NONE_YET, *accepted]})
                self.path(name).unlink(missing_ok=True)
                self._store(sums)

    def finish(self, *unlisted: str) -> None:
        """Mark the run as finished: list each file with one checksum in `done`, including the `unlisted` files."""
        for name, fault in self.faults().items():
            raise damaged(self.folder, name, fault)
        sums = {name: [self._actual(name)] for name in (*self.sums(), *unlisted)}
        write_whole(self.folder / DONE, _text({name: listed for name, listed in sums.items() if listed != [NONE_YET]}))
        (self.folder / RUNNING).unlink(missing_ok=True)

    def has(self, name: str) -> bool:
        """Return whether there is, or should be, a file of this name."""
        return (self.folder / name).exists() or NONE_YET not in self.sums().get(name, [NONE_YET])

    def read(self, name: str, limit: int = LARGEST) -> bytes:
        """Read a file; raise if it is missing, too large, or differs from what the run wrote."""
        try:
            data = read_limited(self.path(name), limit, links=False)
        except OSError as error:
            raise damaged(self.folder, name, f"cannot be read ({error.strerror or error})") from error
        if hashlib.sha256(data).hexdigest() not in self.sums().get(name, []):
            raise damaged(self.folder, name, "is not what the run wrote")
        return data

    def write_json(self, name: str, content: dict[str, Any]) -> None:
        """Write a JSON object and its checksum."""
        self.write(name, json_bytes(content))

    def read_json(self, name: str, check: Callable[[dict[str, Any]], None], limit: int = MOST_FACTS) -> dict[str, Any]:
        """Read a JSON object; raise if it is damaged, or if `check` raises `ValueError`."""
        data = self.read(name, limit)
        try:
            content: Any = parse_json(data)
        except ValueError as error:
            raise damaged(self.folder, name, "is not JSON") from error
        if not isinstance(content, dict):
            raise damaged(self.folder, name, "is not a JSON object")
        try:
            check(content)
        except ValueError as error:
            raise damaged(self.folder, name, str(error)) from error
        return content

    def faults(self, *ignored: str) -> dict[str, str]:
        """Return what is wrong with each damaged or missing file, by name; skip names that start with `ignored`."""
        faults = {}
        for name, accepted in self.sums().items():
            if not name.startswith(ignored) and (actual := self._actual(name)) not in accepted:
                faults[name] = "is missing" if actual == NONE_YET else "is not what the run wrote"
        return faults

    def _actual(self, name: str) -> str:
        """Return the SHA-256 of a file's content; `NONE_YET` if there is no file."""
        try:
            with open_regular(self.path(name), links=False) as stream:
                return hashlib.file_digest(stream, "sha256").hexdigest()
        except FileNotFoundError:
            return NONE_YET
        except (OSError, DamagedError):
            return "unreadable"

    def _store(self, sums: Sums) -> None:
        self._known = None, {}
        write_whole(self.folder / (DONE if self.finished else RUNNING), _text(sums))

    def _editing(self) -> FileLock:
        """Return the lock to hold while the manifest changes: several measures of a run may be taken at once."""
        return FileLock(self.folder / ".manifest.lock", timeout=EDITING)


def _is_inside(name: str) -> bool:
    """Return whether a name is relative, without `..`.

    Example:
        >>> [_is_inside(name) for name in ("result.json", "measures/attack.json", "../done", "/etc/passwd")]
        [True, True, False, False]
    """
    path = PurePosixPath(name)
    return bool(path.parts) and not path.is_absolute() and ".." not in path.parts and "\0" not in name


def settings_of(folder: Path) -> bytes:
    """Return the bytes of `recipe.json`, which distinguish files of different runs; empty if it cannot be read."""
    try:
        return read_limited(folder / RECIPE, MOST_FACTS, links=False)
    except OSError:
        return b""


def damaged(folder: Path, name: str, fault: str) -> DamagedError:
    """Return the error for a file that cannot be used."""
    sentence = f"{folder} is damaged: {name} {fault}. Restore the file, or delete the folder and run again."
    return DamagedError(sentence, name, fault)


def json_bytes(content: dict[str, Any]) -> bytes:
    """Serialize an object as the bytes of a JSON file."""
    return f"{json.dumps(content, indent=1)}\n".encode()


def _text(sums: Sums) -> bytes:
    return json_bytes({"files": sums, "sha256": _checksum(sums)})


def _checksum(sums: Any) -> str:
    return hashlib.sha256(json.dumps(sums, sort_keys=True).encode()).hexdigest()
