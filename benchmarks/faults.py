"""Break runs, files, data folders, command lines and processes many times over, and count what comes of it.

    python benchmarks/faults.py                       every section, one table
    python benchmarks/faults.py kills pairs           these sections
    python benchmarks/faults.py --small               a handful of cases of each section
    python benchmarks/faults.py --log DIR --resume    sections that have finished in DIR are not run again

A section is run in a process of its own, and its cases in children of that. The exit code is 1 if there is any fault:
a wrong input used silently, a traceback, no end within the stated time, foreign code executed, a process left behind,
data lost.
"""

import argparse
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from fault_sections import _process
from fault_sections._tally import Tally, table

Section = Callable[[Path, Tally, float], None]
SECTIONS = {
    "kills": "kills:kills",
    "corruptions": "corruptions:corruptions",
    "command lines": "words:command_lines",
    "data folders": "data_folders:data_folders",
    "hostile files": "words:hostile_files",
    "pairs": "pairs:pairs",
    "ranks": "ranks:ranks",
    "cost": "cost:cost",
}
SMALL = 0.005
NAMES = tuple(name.replace(" ", "-") for name in SECTIONS)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=f"of {', '.join(NAMES)}; all by default")
    parser.add_argument("--share", type=float, default=1.0, help="of the cases of each section, above 0 and up to 1")
    parser.add_argument("--small", action="store_const", const=SMALL, dest="share", default=1.0, help="a handful")
    parser.add_argument("--log", type=Path, help="a folder for a log and the counts of each section")
    parser.add_argument("--resume", action="store_true", help="keep the sections that are finished in the log folder")
    parser.add_argument("--jobs", type=int, default=1, help="sections at a time")
    parser.add_argument("--keep", action="store_true", help="keep the scratch folder")
    given = parser.parse_args()
    if wrong := set(given.sections) - set(NAMES):
        parser.error(f"there is no section {', '.join(sorted(wrong))}: there are {', '.join(NAMES)}")
    chosen = [word.replace("-", " ") for word in given.sections or NAMES]
    scratch = Path(tempfile.mkdtemp(prefix="opl-faults-"))
    log = given.log or scratch / "log"
    log.mkdir(parents=True, exist_ok=True)
    try:
        _process.preload()
        _run_all(chosen, scratch, log.resolve(), given)
        tallies = [Tally.read(_counts(log, name)) for name in chosen if _counts(log, name).exists()]
    finally:
        if not given.keep:
            shutil.rmtree(scratch, onerror=_force)
    print(table(tallies))
    return 1 if any(each.faults for each in tallies) or len(tallies) < len(chosen) else 0


def _run_all(chosen: list[str], scratch: Path, log: Path, given: argparse.Namespace) -> None:
    """Run the sections, a process each, several at a time."""
    waiting = [name for name in chosen if not (given.resume and _counts(log, name).exists())]
    running: dict[int, str] = {}
    while waiting or running:
        while waiting and len(running) < max(1, given.jobs):
            name = waiting.pop(0)
            _counts(log, name).unlink(missing_ok=True)
            print(f"{time.strftime('%H:%M:%S')} {name}", file=sys.stderr, flush=True)
            if (pid := os.fork()) == 0:
                _section(name, scratch / name.replace(" ", "-"), log, given.share)
            running[pid] = name
        pid, status = os.wait()
        if (name := running.pop(pid, "")) and status:
            print(f"section {name} did not finish: see {log}", file=sys.stderr)


def _section(name: str, scratch: Path, log: Path, share: float) -> None:
    """Run one section in a forked child, and store its counts."""
    code = 1
    try:
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        _process.end_with_parent(signal.SIGTERM)
        _process.adopt_orphans()
        scratch.mkdir(parents=True)
        module, _, function = SECTIONS[name].partition(":")
        file = log / f"{name.replace(' ', '-')}.log"
        file.unlink(missing_ok=True)
        tally = Tally(name, file)
        run: Section = getattr(import_module(f"fault_sections.{module}"), function)
        run(scratch, tally, share)
        tally.store(_counts(log, name))
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        _process.end_all()
        os._exit(code)


def _counts(log: Path, name: str) -> Path:
    return log / f"{name.replace(' ', '-')}.json"


def _force(remove: Callable[[str], None], path: str, _: object) -> None:
    """Delete what a case has made unreadable."""
    for place in (Path(path).parent, Path(path)):
        if place.is_dir() and not place.is_symlink():
            place.chmod(0o700)
    if os.path.lexists(path):
        shutil.rmtree(path, ignore_errors=True) if os.path.isdir(path) else remove(path)


if __name__ == "__main__":
    sys.exit(main())
