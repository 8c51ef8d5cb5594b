"""Break runs, files, data folders, command lines and processes many times, and count what happens.

    python tests/faults/campaign.py                        every section, one table
    python tests/faults/campaign.py --section kills pairs  only these sections
    python tests/faults/campaign.py --share 0.01           one percent of the cases of each section
    python tests/faults/campaign.py --jobs 2               two cases at a time
    python tests/faults/campaign.py --log DIR --resume     continue: keep the cases that DIR has
    python tests/faults/campaign.py --list                 only count the cases

A section is a module with `cases(scratch, share)`: a table of names, actions and expectations, as `Case` values. This
file is the engine: it runs each case in an empty folder and tallies the outcomes. The exit code is 1 if there is any
fault.
"""

import argparse
import faulthandler
import json
import re
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]  # also where PYTHONSAFEPATH is set

import _process  # noqa: E402

SECTIONS = (
    "kills", "corruptions", "command_lines", "data_folders", "hostile_files", "hostile_trees", "hostile_values",
    "pairs", "ranks", "cost",
)  # fmt: skip
ALONE = ("cost",)  # sections that measure time
OUTCOMES = {
    "right": "the correct result",
    "refused": "a message, with exit code 1 or 2",
    "silent": "wrong input used, or an error without a message",
    "traceback": "a crash",
    "hang": "no end within the time limit",
    "execution": "foreign code ran, or a file outside of the folder was read or written",
    "orphan": "a process or a temporary file left behind",
    "lost": "data lost, or a promise broken",
}
FAULTS = tuple(OUTCOMES)[2:]
WATCHDOG = 900.0  # seconds after which a worker that cannot be interrupted is ended
PROGRESS = 20.0  # seconds between reports


class Verdict(NamedTuple):
    """The outcome of a case, one of `OUTCOMES`."""

    outcome: str
    detail: str = ""
    ended: _process.Ended | None = None


class Case(NamedTuple):
    """One or several attempts to break something."""

    name: str
    run: Callable[[Path], Verdict]
    """Runs the case in an empty folder and judges it."""
    count: int = 1
    """How many attempts it makes."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--section", nargs="+", choices=SECTIONS, default=SECTIONS, metavar="NAME", help=str(SECTIONS))
    parser.add_argument("--share", type=float, default=1.0, help="fraction of the cases of each section to run")
    parser.add_argument("--jobs", type=int, default=1, help="cases at a time")
    parser.add_argument("--log", type=Path, help="folder for the outcomes of all cases, one file per section")
    parser.add_argument("--resume", action="store_true", help="keep the outcomes that the log folder has")
    parser.add_argument("--list", action="store_true", help="print the number of cases of each section")
    options = parser.parse_args()
    scratch = Path(tempfile.mkdtemp(prefix="opl-faults-"))
    log = (options.log or scratch / "log").resolve()
    log.mkdir(parents=True, exist_ok=True)
    rows, complete = [], True
    try:
        _process.preload()
        for name in options.section:
            file = log / f"{name}.jsonl"
            if not options.resume:
                file.unlink(missing_ok=True)
            complete &= _process.fork(_section, name, scratch / name, file, options).end() == 0
            rows.append((name, _read(file)))
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    if not options.list:
        print(table(rows))
    return 0 if complete and not any(record["outcome"] in FAULTS for _, records in rows for record in records) else 1


def _section(name: str, scratch: Path, file: Path, options: argparse.Namespace) -> None:
    """Run the cases of a section that the log lacks."""
    started = time.monotonic()
    _report(f"{name}: preparing")
    scratch.mkdir(parents=True)
    cases: list[Case] = list(import_module(name).cases(scratch, options.share))
    cases = cases[:: max(1, round(1 / options.share))]
    assert len({case.name for case in cases}) == len(cases), Counter(case.name for case in cases).most_common(3)
    total = sum(case.count for case in cases)
    if options.list:
        print(f"{name}: {total}")
        return
    known = {record["case"] for record in _read(file)}
    todo = [case for case in cases if case.name not in known]
    _write(file, case="", outcome="right", count=0, seconds=time.monotonic() - started)  # the time of preparing
    jobs = 1 if name in ALONE else options.jobs
    workers = [_process.fork(_supervise, todo[slot::jobs], scratch, file, total) for slot in range(jobs)]
    assert [worker.end() for worker in workers] == [0] * jobs


def _supervise(todo: list[Case], scratch: Path, file: Path, total: int) -> None:
    """Run cases in a worker; a case in which the worker crashes or is ended by its watchdog counts as a hang."""
    while todo and _process.fork(_work, todo, scratch, file, total).end():
        known = {record["case"] for record in _read(file)}
        todo = [case for case in todo if case.name not in known]
        case, *todo = todo
        _write(file, case=case.name, outcome="hang", count=case.count, seconds=WATCHDOG, detail="worker ended")


def _work(todo: list[Case], scratch: Path, file: Path, total: int) -> None:
    """Run one case after the other, each in an empty folder."""
    reported = time.monotonic()
    for case in todo:
        sandbox, started = Path(tempfile.mkdtemp(prefix="case-", dir=scratch)), time.monotonic()
        faulthandler.dump_traceback_later(WATCHDOG, exit=True)
        try:
            outcome, detail, ended = case.run(sandbox)
            assert outcome in OUTCOMES, outcome
        except Exception:
            outcome, detail, ended = "traceback", f"the suite itself failed: {traceback.format_exc()}", None
        faulthandler.cancel_dump_traceback_later()
        lines = re.split(r"[\r\n]+", ended.output.strip()) if ended else []
        output = {"code": ended.code, "output": lines[-25 if outcome in FAULTS else -1 :]} if ended else {}
        seconds = round(time.monotonic() - started, 2)
        _write(file, case=case.name, outcome=outcome, count=case.count, seconds=seconds, detail=detail, **output)
        shutil.rmtree(sandbox, ignore_errors=True)
        if time.monotonic() - reported > PROGRESS or case is todo[-1]:
            reported, records = time.monotonic(), _read(file)
            _report(f"{file.stem}: {count(records, *OUTCOMES):,} of {total:,} cases, {count(records, *FAULTS)} faults")


def _report(text: str) -> None:
    print(time.strftime("%H:%M:%S"), text, file=sys.stderr, flush=True)


def _write(file: Path, **record: Any) -> None:
    with file.open("ab", buffering=0) as stream:  # one write, so that workers do not mix their lines
        stream.write(json.dumps(record).encode() + b"\n")


def _read(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def count(records: list[dict[str, Any]], *outcomes: str) -> int:
    """The number of attempts with these outcomes."""
    return sum(record["count"] for record in records if record["outcome"] in outcomes)


def table(sections: list[tuple[str, list[dict[str, Any]]]]) -> str:
    """The table of all sections, with measured numbers and the first faults below it."""
    rows: list[tuple[Any, ...]] = [("section", "cases", "right", "refused", "faults", "seconds")]
    for name, records in sections:
        counts = [count(records, *outcomes) for outcomes in (OUTCOMES, ("right",), ("refused",), FAULTS)]
        rows.append((name, *counts, round(sum(record["seconds"] for record in records))))
    rows.append(("all", *(sum(column) for column in list(zip(*rows[1:], strict=True))[1:])))
    widths = [max(len(str(row[index])) for row in rows) for index in range(len(rows[0]))]
    lines = ["  ".join(f"{cell!s:>{width}}" for cell, width in zip(row, widths, strict=True)) for row in rows]
    for name, records in sections:
        lines += [f"{name}: {record['detail']}" for record in records if name == "cost" and record.get("detail")]
        wrong = [record for record in records if record["outcome"] in FAULTS]
        lines += [f"{name}: {r['outcome']}: {r['case']} | {r['detail']} | {r.get('output')}"[:700] for r in wrong[:12]]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.modules["campaign"] = sys.modules["__main__"]  # sections import it by this name
    sys.exit(main())
