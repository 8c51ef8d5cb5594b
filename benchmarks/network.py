"""Bytes that one step of the global batch sends, for class sums and for features, as counted by the kernel.

    python benchmarks/network.py

Linux counts in /proc/self/io the bytes that a process writes, including those that gloo writes to its sockets: this is
a measurement, not an estimate (without TCP headers), and other programs do not affect it.
"""

import argparse
import json
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

import opl


def written_bytes() -> int:
    """Return the bytes that this process has written so far, to files and sockets."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("wchar:"))


def work(rank: int, world: int, store: str, rows: int, dim: int, classes: int, steps: int, out: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world)
    generator = torch.Generator().manual_seed(rank)
    features = torch.rand(rows // world, dim, generator=generator, requires_grad=True)
    labels = torch.randint(0, classes, (rows // world,), generator=generator)
    result = {"rows": rows, "dim": dim, "classes": classes, "processes": world}

    def step(algorithm: str) -> None:
        opl.orthogonal_projection(features, labels, group=dist.group.WORLD, algorithm=algorithm).loss.backward()

    for algorithm in ("auto", "class_sums", "features"):
        step(algorithm)
        dist.barrier()
        before = written_bytes()
        for _ in range(steps):
            step(algorithm)
        sent = torch.tensor(written_bytes() - before)
        dist.all_reduce(sent)
        result[algorithm] = round(sent.item() / steps)
    result["chosen"] = min(("class_sums", "features"), key=lambda algorithm: abs(result[algorithm] - result["auto"]))
    if rank == 0:
        Path(out).write_text(json.dumps(result))
    dist.destroy_process_group()


def measure(rows: int, dim: int, classes: int, processes: int, steps: int) -> dict:
    with tempfile.TemporaryDirectory() as folder:
        out = str(Path(folder) / "out.json")
        store = str(Path(folder) / "store")
        mp.spawn(work, (processes, store, rows, dim, classes, steps, out), nprocs=processes)
        return json.loads(Path(out).read_text())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[128, 1024, 4096], help="global batch sizes")
    parser.add_argument("--dim", type=int, default=512)
    parser.add_argument("--classes", type=int, nargs="+", default=[100, 1000])
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    arguments = parser.parse_args()
    results = [
        measure(rows, arguments.dim, classes, arguments.processes, arguments.steps)
        for classes in arguments.classes
        for rows in arguments.rows
    ]
    if arguments.json:
        print(json.dumps(results))
        return
    print(f"bytes sent per step by {arguments.processes} processes together, D={arguments.dim}")
    print(f"{'classes':>8}{'batch':>8}{'class sums':>14}{'features':>14}  chosen")
    for row in results:
        print(f"{row['classes']:>8}{row['rows']:>8}{row['class_sums']:>14,}{row['features']:>14,}  {row['chosen']}")


if __name__ == "__main__":
    main()
