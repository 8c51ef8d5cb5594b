"""Kill a run with SIGKILL at random moments, start it again, and compare the final weights byte by byte.

    python benchmarks/kill.py --times 20
    python benchmarks/kill.py --times 3 --devices 2

A third of the kills wait for the moment in which a checkpoint is being written; the others come at a random time of the
run, evaluation included. Every run is killed at least once before it may finish, some twice.
"""

import argparse
import contextlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def start(out: Path, flags: list[str]) -> subprocess.Popen:
    words = [
        sys.executable,
        "-m",
        "opl",
        "train",
        "digits-opl",
        "--scale",
        "small",
        "--out",
        str(out),
        *flags,
    ]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        words, env=environment, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


def kill(process: subprocess.Popen) -> None:
    """The process and all that it started, with no chance to tidy up."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def training_began(folder: Path) -> bool:
    return (folder / "splits.json").exists()


def wait_for(what, process: subprocess.Popen) -> None:
    while not what() and process.poll() is None:
        time.sleep(0.0005)


def writing(folder: Path) -> bool:
    return any(folder.glob(".checkpoint*")) or (folder / "checkpoint-new.pt").exists()


def kill_once(out: Path, flags: list[str], seconds: float, chance: random.Random) -> str | None:
    """Start the run and kill it; returns in which state it was, or None if it had finished by then."""
    folder = out / "digits-opl" / "seed-0"
    process = start(out, flags)
    wait_for(lambda: training_began(folder), process)
    time.sleep(chance.uniform(0, seconds))
    at_checkpoint = chance.random() < 1 / 3
    if at_checkpoint:
        wait_for(lambda: writing(folder), process)
    kill(process)
    if (folder / "done").exists():
        return None
    metrics = folder / "metrics.jsonl"
    epochs = len(metrics.read_text().splitlines()) if metrics.exists() else 0
    return f"killed after epoch {epochs}" + (", while a checkpoint was written" if at_checkpoint else "")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--devices", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0, help="of the random moments")
    given = parser.parse_args()
    flags = ["--epochs", str(given.epochs), "--devices", str(given.devices), "--data.val", "100"]
    chance = random.Random(given.seed)
    equal = 0
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        reference = out / "whole" / "digits-opl" / "seed-0"
        process = start(out / "whole", flags)
        wait_for(lambda: training_began(reference), process)
        began = time.time()
        wait_for(lambda: (reference / "done").exists(), process)
        seconds = time.time() - began
        if process.wait() != 0:
            print("the uninterrupted run failed", file=sys.stderr)
            return 1
        expected = (reference / "model.safetensors").read_bytes()
        for number in range(given.times):
            said, place = None, out
            while said is None:  # a kill that came too late is no kill: try another moment
                place = out / f"{number}-{chance.random()}"
                said = kill_once(place, flags, seconds, chance)
            if chance.random() < 1 / 3:  # and once more
                said += "; " + (kill_once(place, flags, seconds, chance) or "it finished before the second kill")
            start(place, flags).wait()
            got = (place / "digits-opl" / "seed-0" / "model.safetensors").read_bytes()
            equal += got == expected
            print(f"{number + 1}: {said}: {'the same bytes' if got == expected else 'DIFFERENT'}", flush=True)
    print(f"{equal} of {given.times} runs ended with the same bytes")
    return 0 if equal == given.times else 1


if __name__ == "__main__":
    sys.exit(main())
