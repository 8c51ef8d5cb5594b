"""Every kind of file that `opl` writes, damaged in every way, and read by every command that reads it.

A case is right if the result is that of the undamaged folder: the file does not matter to the command, or it was
repaired. It is refused if the command fails or warns, and names the file, or marks the run as unusable on the page.
Everything else is a fault: another result and no word about it is silent, or lost where epochs are missing.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from . import _trees
from ._damage import DAMAGES
from ._process import Ended
from ._readers import Reader, fresh_copy
from ._tally import Outcome, Tally, common_fault

LIMIT = 30.0  # seconds; the same commands take about one on undamaged folders
EACH = 7  # kinds of damage for a file and a reader, in turn
LISTS = ("done", "sums.json")  # of checksums: with a wrong one, it is the files that look wrong
REDUNDANT = (".sha256", "owner.json")  # no data: `opl check` need not miss a checksum that is elsewhere too, or a lock
MARKS = (
    "damaged", "unfinished", "refused", "not added", "cannot be read", "cannot be used", "left out", "in use",
    "no finished run",
)  # fmt: skip


@dataclass(frozen=True)
class Case:
    """A file of a tree, a kind of damage to it, and a reader."""

    tree: _trees.Tree
    file: str
    damage: str
    reader: Reader

    def __str__(self) -> str:
        return f"{self.tree.name}: {self.file}, {self.damage}: {self.reader.name}"


def corruptions(scratch: Path, tally: Tally, share: float) -> None:
    """Damage and read; each tree is made once."""
    for number, tree in enumerate(_trees.TREES):
        if share < 0.1 and not tree.quick:
            continue
        place = scratch / str(number)  # a path that has no word in it by which faults are told
        pristine = place / "pristine"
        made = tree.make(pristine)
        if made is not None:
            tally.add("lost", f"{tree.name}: the tree cannot be made", made)
            continue
        expected: dict[str, tuple[Any, str] | None] = {}
        cases = list(_cases(tree, pristine))
        for case in cases[:: max(1, round(1 / share))]:
            folder = place / "work"
            if case.reader.name not in expected:
                expected[case.reader.name] = _baseline(case.reader, pristine, folder, tally)
            if (usual := expected[case.reader.name]) is not None:
                _try(case, pristine, folder, *usual, tally)


def _cases(tree: _trees.Tree, pristine: Path) -> Iterator[Case]:
    """Every file with every reader, and several kinds of damage in turn."""
    turn = count()
    kinds = list(DAMAGES)
    for file in tree.files(pristine):
        for reader in tree.readers:
            chosen = {kinds[next(turn) % len(kinds)] for _ in range(EACH)}
            yield from (Case(tree, file, damage, reader) for damage in kinds if damage in chosen)


def _baseline(reader: Reader, pristine: Path, folder: Path, tally: Tally) -> tuple[Any, str] | None:
    """What a reader makes of the undamaged tree, twice the same; None if it fails."""
    seen, text = [], ""
    for _ in range(2):
        fresh_copy(pristine, folder)
        ended = reader.read(folder, LIMIT)
        seen.append(reader.observe(folder, ended))
        text = reader.text(folder, ended)
    if ended.code or common_fault(ended):
        tally.add(common_fault(ended) or "lost", f"{reader.name} of an undamaged folder", ended)
        return None
    if seen[0] != seen[1]:
        tally.write(f"{reader.name} gives another result each time: its cases count as refused or silent")
    return seen[0], text


def _try(case: Case, pristine: Path, folder: Path, expected: Any, usual: str, tally: Tally) -> None:
    fresh_copy(pristine, folder)
    file = folder / case.file
    if not DAMAGES[case.damage](file, folder / case.tree.other(case.file)):
        return
    ended = case.reader.read(folder, LIMIT)
    text = case.reader.text(folder, ended)
    if _is_as_after_a_kill(case, pristine, file) and not common_fault(ended):
        tally.add("right", str(case), ended)
        return
    observed = None if ended.hung else case.reader.observe(folder, ended)
    tally.add(judge(case, ended, observed, expected, text, usual), str(case), ended)


def _is_as_after_a_kill(case: Case, pristine: Path, file: Path) -> bool:
    """Whether an unfinished run lacks no more than the end of its epochs, as if it had been killed a moment before.

    Only a run that resumes can know better, from its checkpoint.
    """
    reads = case.reader.page or case.reader.strict
    if not (reads and file.name == "metrics.jsonl" and file.is_file() and not (file.parent / "done").exists()):
        return False
    whole = file.read_bytes().rpartition(b"\n")[0]  # what follows the last end of a line is an incomplete one
    return (pristine / case.file).read_bytes().startswith(whole)


def judge(case: Case, ended: Ended, observed: Any, expected: Any, text: str, usual: str) -> Outcome:
    """What came of a case."""
    if fault := common_fault(ended):
        return fault
    name = Path(case.file).name.removesuffix(".sha256")  # of a checksum, the file that it belongs to may be named
    named = text.count(name) > usual.count(name)
    marked = any(text.count(mark) > usual.count(mark) for mark in MARKS)
    if case.reader.strict:
        if ended.code and (named or name in LISTS):
            return "refused"
        return "right" if case.file.endswith(REDUNDANT) else "silent"
    if observed == expected and not ended.code:
        return "right"
    if named or (marked and bool(case.reader.page)) or (ended.code and marked):
        return "refused"
    both = isinstance(observed, dict) and isinstance(expected, dict)
    return "lost" if both and observed.get("epochs") != expected.get("epochs") else "silent"
