"""What a section of the fault campaign counts."""

import json
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from ._process import Ended

Outcome = Literal["right", "refused", "silent", "traceback", "hang", "execution", "orphan", "lost"]
FAULTS: tuple[Outcome, ...] = ("silent", "traceback", "hang", "execution", "orphan", "lost")
OUTCOMES: tuple[Outcome, ...] = ("right", "refused", *FAULTS)


@dataclass
class Tally:
    """How often each outcome was seen, with the cases of every fault.

    `right` is the right result, `refused` a sentence with exit code 1 or 2; the others are faults: a wrong input used
    silently, a traceback, no end within the stated time, foreign code executed, a process or temporary file left
    behind, data lost.
    """

    name: str
    log: Path | None = None
    """Where a line is written for each case."""
    counts: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """Measured numbers that belong below the table."""
    began: float = field(default_factory=time.monotonic)
    seconds: float = 0.0

    def add(self, outcome: Outcome, case: str, ended: Ended | None = None) -> None:
        """Count an outcome; `case` says what was tried, in a line, and `ended` how the command ended."""
        self.counts[outcome] += 1
        self.seconds = time.monotonic() - self.began
        last = _last_line(ended)
        if outcome in FAULTS:
            self.faults.append(f"{outcome}: {case}" + (f" ({last})" if last else ""))
        self.write(f"{self.seconds:8.1f} s  {outcome:9}  {case}" + (f"  | {last}" if last else ""))
        if outcome in FAULTS and ended is not None:
            self.write("\n".join(f"      > {line}" for line in ended.said.splitlines()[-25:]))

    def write(self, line: str) -> None:
        """Write a line to the log."""
        if self.log is not None:
            with self.log.open("a", errors="backslashreplace") as file:
                file.write(line + "\n")

    @property
    def tried(self) -> int:
        """Number of cases."""
        return self.counts.total()

    def store(self, file: Path) -> None:
        """Write the tally of a finished section."""
        content = {"counts": self.counts, "faults": self.faults, "notes": self.notes, "seconds": self.seconds}
        file.write_text(json.dumps({"name": self.name, **content}, indent=1) + "\n")

    @classmethod
    def read(cls, file: Path) -> "Tally":
        """Read the tally of a finished section."""
        content = json.loads(file.read_text())
        counts = Counter(content.pop("counts"))
        return cls(counts=counts, **content)


def _last_line(ended: Ended | None) -> str:
    lines = ended.said.strip().splitlines() if ended else []
    return f"exit {ended.code}: {lines[-1][:160]}" if ended and lines else f"exit {ended.code}" if ended else ""


def common_fault(ended: Ended) -> Outcome | None:
    """The fault that any command may have, whatever it was to do; None if it has none."""
    if ended.hung:
        return "hang"
    if ended.crashed:
        return "traceback"
    return "orphan" if ended.orphans else None


def table(tallies: list[Tally]) -> str:
    """The table of the campaign, with the first cases of every fault below it."""
    head = ("section", "tried", *OUTCOMES, "seconds")
    rows = [
        (each.name, str(each.tried), *(str(each.counts[one]) for one in OUTCOMES), f"{each.seconds:.0f}")
        for each in tallies
    ]
    total = [
        str(sum(each.tried for each in tallies)),
        *(str(sum(each.counts[one] for each in tallies)) for one in OUTCOMES),
    ]
    rows.append(("all", *total, f"{sum(each.seconds for each in tallies):.0f}"))
    widths = [max(len(row[place]) for row in (head, *rows)) for place in range(len(head))]
    lines = []
    for first, *others in (head, *rows):
        cells = [word.rjust(width) for word, width in zip(others, widths[1:], strict=True)]
        lines.append("  ".join([first.ljust(widths[0]), *cells]))
    for each in tallies:
        lines += [f"{each.name}: {note}" for note in each.notes]
    for each in tallies:
        lines += [f"{each.name}: {fault}" for fault in each.faults[:12]]
        lines += [f"{each.name}: {len(each.faults) - 12} more faults are in its log"] if len(each.faults) > 12 else []
    return "\n".join(lines)
