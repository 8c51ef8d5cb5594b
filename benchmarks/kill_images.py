"""Kill a run on large images inside its epoch, start it again, and compare the final weights byte by byte.

    python benchmarks/synthetic_imagenet.py /tmp/imagenet
    python benchmarks/kill_images.py /tmp/imagenet/folders --devices 1 2 --workers 0 2

The recipe is the small scale of table 2, on these images. The run is killed with SIGKILL, with all its processes,
after its first checkpoint inside the epoch.
"""

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RECIPE = "cifar100-jpegs-opl"


def start(out: Path, flags: list[str]) -> subprocess.Popen:
    words = [sys.executable, "-m", "opl", "train", RECIPE, "--scale", "small", "--out", str(out), *flags]
    with (out.parent / f"{out.name}.log").open("ab") as log:
        return subprocess.Popen(words, start_new_session=True, stdout=log, stderr=log)


def kill(process: subprocess.Popen) -> None:
    """Kill the process and all its children, without cleanup."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def compare(folder: Path, devices: int, workers: int, flags: list[str]) -> bool:
    flags = [*flags, "--devices", str(devices), "--data.workers", str(workers)]
    place = Path(RECIPE) / "seed-0"
    whole, cut = folder / f"whole-{devices}-{workers}", folder / f"cut-{devices}-{workers}"
    begun = time.perf_counter()
    if start(whole, flags).wait() != 0:
        raise SystemExit((folder / f"{whole.name}.log").read_text()[-2000:])
    seconds = time.perf_counter() - begun
    process = start(cut, flags)
    while process.poll() is None and not (cut / place / "checkpoint.pt").exists():
        time.sleep(0.01)
    kill(process)
    if (cut / place / "done").exists():
        raise SystemExit("the run had finished before it could be killed: give more --images")
    finished = (
        len((cut / place / "metrics.jsonl").read_text().splitlines()) if (cut / place / "metrics.jsonl").exists() else 0
    )
    start(cut, flags).wait()
    one, other = ((base / place / "model.safetensors").read_bytes() for base in (whole, cut))
    word = "the same bytes" if one == other else "DIFFERENT"
    print(
        f"{devices} processes, {workers} workers: killed after {finished} epochs, {word} ({seconds:.0f} s a run)",
        flush=True,
    )
    return one == other


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", help="class folders, with 'train' in it, or Parquet files")
    parser.add_argument("--devices", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--workers", type=int, nargs="+", default=[0, 2])
    parser.add_argument("--images", type=int, default=4, help="of each class")
    given = parser.parse_args()
    flags = ["--data.root", given.folder, "--data.per-class", str(given.images), "--epochs", "1"]
    flags += ["--checkpoint-every", "20 steps"]
    with tempfile.TemporaryDirectory() as folder:
        same = [compare(Path(folder), d, w, flags) for d in given.devices for w in given.workers]
    return 0 if all(same) else 1


if __name__ == "__main__":
    sys.exit(main())
