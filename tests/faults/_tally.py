"""What a section of the fault suite counts."""

import json
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from _process import Ended

FAULTS = ("silent", "traceback", "hang", "execution", "orphan", "lost")
OUTCOMES = ("right", "refused", *FAULTS)


@dataclass
class Tally:
    """How often each outcome was seen, and the cases of every fault.

    `right` is the correct result and `refused` a message with exit code 1 or 2. The other outcomes are faults: wrong
    input used silently, a traceback, a command that hangs, foreign code executed, a process or temporary file left
    behind, data lost.
    """

    name: str
    log: Path
    counts: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """Measured numbers to print below the table."""
    started: float = field(default_factory=time.monotonic)

    def add(self, outcome: str, case: str, ended: Ended | None = None) -> None:
        """Count an outcome; `case` describes the input on one line."""
        assert outcome in OUTCOMES, outcome
        self.counts[outcome] += 1
        lines = ended.output.strip().splitlines() if ended else []
        last = f" | exit {ended.code}: {lines[-1][:160] if lines else ''}" if ended else ""
        with self.log.open("a", errors="backslashreplace") as file:
            file.write(f"{time.monotonic() - self.started:8.1f} s  {outcome:9}  {case}{last}\n")
            if outcome in FAULTS:
                self.faults.append(f"{outcome}: {case}{last}")
                file.writelines(f"      > {line}\n" for line in lines[-25:])

    def store(self, file: Path) -> None:
        """Write the counts of a finished section."""
        seconds = time.monotonic() - self.started
        content = {"counts": self.counts, "faults": self.faults, "notes": self.notes, "seconds": seconds}
        file.write_text(json.dumps({"name": self.name, **content}, indent=1) + "\n")


def table(sections: list[dict]) -> str:
    """The table of the suite, with notes and the first cases of every fault below it."""
    rows = [("section", "cases", *OUTCOMES, "seconds")]
    for section in sections:
        counts = [section["counts"].get(outcome, 0) for outcome in OUTCOMES]
        rows.append((section["name"], sum(counts), *counts, round(section["seconds"])))
    rows.append(("all", *(sum(column) for column in list(zip(*rows[1:], strict=True))[1:])))
    widths = [max(len(str(row[index])) for row in rows) for index in range(len(rows[0]))]
    lines = ["  ".join(f"{cell!s:>{width}}" for cell, width in zip(row, widths, strict=True)) for row in rows]
    for section in sections:
        lines += [f"{section['name']}: {text}" for text in (*section["notes"], *section["faults"][:12])]
    return "\n".join(lines)
