"""Break runs, files, data folders, command lines and processes many times, and count what happens.

    python tests/faults/campaign.py                       every section, one table
    python tests/faults/campaign.py kills pairs           only these sections
    python tests/faults/campaign.py --share 0.01          one percent of the cases of each section
    python tests/faults/campaign.py --log DIR --resume    keep the sections that have finished in DIR

The exit code is 1 if there is any fault (see `_tally.Tally`).
"""

import argparse
import json
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
from importlib import import_module
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))  # also where PYTHONSAFEPATH is set

import _process
from _tally import Tally, table

SECTIONS = ("kills", "corruptions", "command_lines", "data_folders", "hostile_files", "pairs", "ranks", "cost")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sections", nargs="*", choices=[*SECTIONS, []], metavar="SECTION", help=", ".join(SECTIONS))
    parser.add_argument("--share", type=float, default=1.0, help="fraction of the cases of each section to run")
    parser.add_argument("--log", type=Path, help="folder for the log and the counts of each section")
    parser.add_argument("--resume", action="store_true", help="keep the sections that have finished in the log folder")
    options = parser.parse_args()
    scratch = Path(tempfile.mkdtemp(prefix="opl-faults-"))
    log = (options.log or scratch / "log").resolve()
    log.mkdir(parents=True, exist_ok=True)
    finished = []
    try:
        _process.preload()
        for name in options.sections or SECTIONS:
            file = log / f"{name}.json"
            if not (options.resume and file.exists()):
                file.unlink(missing_ok=True)
                print(f"{time.strftime('%H:%M:%S')} {name}", file=sys.stderr, flush=True)
                _run_in_child(name, scratch / name, log, options.share)
            finished += [json.loads(file.read_text())] if file.exists() else []
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    print(table(finished))
    complete = len(finished) == len(options.sections or SECTIONS)
    return 0 if complete and not any(section["faults"] for section in finished) else 1


def _run_in_child(name: str, scratch: Path, log: Path, share: float) -> None:
    """Run one section in a forked child, which stores its counts."""
    pid = os.fork()
    if pid:
        os.waitpid(pid, 0)
        return
    try:
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        _process.prctl(_process.DEATH_SIGNAL, signal.SIGTERM)
        _process.prctl(_process.SUBREAPER, 1)
        scratch.mkdir(parents=True)
        (log / f"{name}.log").unlink(missing_ok=True)
        tally = Tally(name, log / f"{name}.log")
        getattr(import_module(name), name)(scratch, tally, share)
        tally.store(log / f"{name}.json")
    except BaseException:
        traceback.print_exc()
    finally:
        _process.Command.running.clear()
        _process.end_orphans(0.0)
        os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
