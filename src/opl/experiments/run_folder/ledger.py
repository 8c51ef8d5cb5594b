"""The SHA-256 of every file of a run: `sums.json` while it is trained, `done` once it is finished.

A new sum is listed before its file is written, beside the sum of the file that it replaces or a mark that there is
none yet, and alone afterwards: a process killed at any moment leaves nothing that looks damaged, and no older file is
taken for the newest. The list has a checksum of its own.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...errors import DamagedError
from ..files import read_limited, sweep, write_whole
from .lock import FileLock

RUNNING, DONE, RECIPE = "sums.json", "done", "recipe.json"
NONE_YET = ""  # listed for a file that is about to be written for the first time
Sums = dict[str, list[str]]
"""The accepted sums of each file, the newest last."""


class Ledger:
    """The list of sums of one run folder.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> ledger = Ledger(folder)
        >>> ledger.write("result.json", b"{}")
        >>> ledger.read("result.json")
        b'{}'
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._known: tuple[Any, Sums] = None, {}  # which list was read last, and what it says

    @property
    def finished(self) -> bool:
        """Whether the run is finished."""
        return (self.folder / DONE).exists()

    def sums(self) -> Sums:
        """Return the accepted sums of every file; empty for a folder without a list."""
        file = self.folder / (DONE if self.finished else RUNNING)
        try:
            facts = file.stat()
        except (FileNotFoundError, NotADirectoryError):
            return {}
        version = (file.name, facts.st_ino, facts.st_mtime_ns, facts.st_size)
        if version != self._known[0]:
            self._known = version, self._read_sums(file)
        return dict(self._known[1])

    def _read_sums(self, file: Path) -> Sums:
        try:
            content = json.loads(read_limited(file, links=False))
            sums = {str(name): [str(each) for each in accepted] for name, accepted in content["files"].items()}
            valid = content["sha256"] == _sum_of(sums)
        except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
            valid = False
        if not valid:
            raise damaged(self.folder, file.name, "is no list of checksums that can be trusted")
        return sums

    def write(self, name: str, data: bytes) -> None:
        """Write a file and its sum."""
        self.write_all({name: data})

    def write_all(self, files: Mapping[str, bytes]) -> None:
        """Write files, whose sums are listed at once."""
        with self._editing():
            sums = self.sums()
            new = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
            before = {name: self._settled(name, sums.get(name, [NONE_YET]))[-1] for name in files}
            self._store(sums | {name: [before[name], new[name]] for name in files})
            for name, data in files.items():
                write_whole(self.folder / name, data)
            self._store(sums | {name: [new[name]] for name in files})

    def mend(self) -> None:
        """After a process was killed: delete its temporary files, and list each file of several sums as it is.

        In a finished run all files are written while the list is held, so that none of them is in use.
        """
        with self._editing():
            sums = self.sums()
            for folder in {self.folder, *((self.folder / name).parent for name in sums)}:
                sweep(folder)
            settled = {name: self._settled(name, accepted) for name, accepted in sums.items()}
            if settled != sums:
                self._store({name: accepted for name, accepted in settled.items() if accepted != [NONE_YET]})

    def _settled(self, name: str, accepted: list[str]) -> list[str]:
        """The one sum of a file that is as accepted, otherwise all."""
        actual = self._actual(name) if len(accepted) > 1 else ""
        return [actual] if len(accepted) > 1 and actual in accepted else accepted

    def remove(self, name: str) -> None:
        """Delete a file and its sum."""
        with self._editing():
            sums = self.sums()
            if accepted := sums.pop(name, None):
                self._store(sums | {name: [NONE_YET, *accepted]})
                (self.folder / name).unlink(missing_ok=True)
                self._store(sums)

    def finish(self, *unlisted: str) -> None:
        """Mark the run as finished: list every file once, with those that had no sum so far, as `done`."""
        for name, fault in self.faults().items():
            raise damaged(self.folder, name, fault)
        sums = {name: [self._actual(name)] for name in (*self.sums(), *unlisted)}
        write_whole(self.folder / DONE, _text({name: each for name, each in sums.items() if each != [NONE_YET]}))
        (self.folder / RUNNING).unlink(missing_ok=True)

    def has(self, name: str) -> bool:
        """Whether there is, or should be, a file of this name."""
        return (self.folder / name).exists() or NONE_YET not in self.sums().get(name, [NONE_YET])

    def read(self, name: str) -> bytes:
        """Read a file; one that is missing or is not what the run wrote is an error."""
        try:
            data = read_limited(self.folder / name, links=False)
        except OSError as error:
            raise damaged(self.folder, name, f"cannot be read ({error.strerror or error})") from error
        if hashlib.sha256(data).hexdigest() not in self.sums().get(name, []):
            raise damaged(self.folder, name, "is not what the run wrote")
        return data

    def write_json(self, name: str, content: dict[str, Any]) -> None:
        """Write a JSON object and its sum."""
        self.write(name, json_bytes(content))

    def read_json(self, name: str) -> dict[str, Any]:
        """Read a JSON object; one that is damaged is an error."""
        data = self.read(name)
        try:
            content: Any = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise damaged(self.folder, name, "is no JSON") from error
        if not isinstance(content, dict):
            raise damaged(self.folder, name, "is no JSON object")
        return content

    def faults(self, *ignored: str) -> dict[str, str]:
        """What is wrong with each damaged or missing file, by name, but for those whose names begin as ignored ones."""
        found = {}
        for name, accepted in self.sums().items():
            if not name.startswith(ignored) and (actual := self._actual(name)) not in accepted:
                found[name] = "is missing" if actual == NONE_YET else "is not what the run wrote"
        return found

    def _actual(self, name: str) -> str:
        """The SHA-256 of a file as it is; `NONE_YET` if there is none."""
        try:
            return hashlib.sha256(read_limited(self.folder / name, links=False)).hexdigest()
        except FileNotFoundError:
            return NONE_YET
        except OSError:
            return "unreadable"

    def _store(self, sums: Sums) -> None:
        self._known = None, {}
        write_whole(self.folder / (DONE if self.finished else RUNNING), _text(sums))

    def _editing(self) -> FileLock:
        """Held while the list changes: several measures of a run may be taken at once."""
        return FileLock(self.folder / ".sums.lock", wait=60.0)


def settings_of(folder: Path) -> bytes:
    """The bytes of `recipe.json`, by which files are told from those of another run; none if it cannot be read."""
    try:
        return read_limited(folder / RECIPE, links=False)
    except OSError:
        return b""


def damaged(folder: Path, name: str, fault: str) -> DamagedError:
    """The error for a file that cannot be used."""
    sentence = f"{folder} is damaged: {name} {fault}. Restore the file, or delete the folder and run again."
    return DamagedError(sentence, name, fault)


def json_bytes(content: dict[str, Any]) -> bytes:
    """The bytes of a JSON file."""
    return f"{json.dumps(content, indent=1)}\n".encode()


def _text(sums: Sums) -> bytes:
    return json_bytes({"files": sums, "sha256": _sum_of(sums)})


def _sum_of(sums: Any) -> str:
    return hashlib.sha256(json.dumps(sums, sort_keys=True).encode()).hexdigest()
