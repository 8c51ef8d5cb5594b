"""A model of the cost of OPL on the global batch with many processes, from measured constants, and its check.

    python benchmarks/scaling.py --out scaling.json --figure docs/scale.svg     # measure, check, draw
    python benchmarks/scaling.py --from scaling.json --figure docs/scale.svg    # draw again

Bytes follow from the algorithm: every process sends its labels to all others, and then either takes part in an
all-reduce of the class sums or sends its features to all others. Seconds are

    latency * ring steps + bytes sent / bandwidth + work / rate

with a latency and a bandwidth measured by two processes over gloo on this machine, and rates of one process on one
thread. The check runs 1, 2 and 4 processes and compares both. For a cluster, pass its `--latency` (seconds) and
`--bandwidth` (bytes per second).
"""

import argparse
import json
import os
import tempfile
import time
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

import opl
from network import written_bytes

WORDS = 8  # bytes of a label
HEADER = 48  # bytes that describe a batch
ALGORITHMS = ("class_sums", "features")
CHECKED = [(32, 64, 100), (128, 512, 100), (128, 512, 1000), (256, 512, 1000), (256, 2048, 1000)]  # B, D, C
RANKS = (1, 2, 4)


def present(rows: int, classes: int) -> float:
    """The expected number of different classes among rows whose classes are drawn at random."""
    return classes * (1 - (1 - 1 / classes) ** rows)


def sent_bytes(world: int, batch: int, dim: int, classes: int, algorithm: str) -> float:
    """Bytes that one process sends in a step, with ring algorithms."""
    labels = (world - 1) * (HEADER + WORDS * batch)
    if algorithm == "features":
        return labels + (world - 1) * 4 * batch * dim
    return labels + 2 * (world - 1) / world * 4 * present(world * batch, classes) * (dim + 1)


def seconds(constants: dict, world: int, batch: int, dim: int, classes: int, algorithm: str) -> float:
    """Seconds of a step of one process: the loss and its gradient, forward and backward."""
    rows, kinds = world * batch, present(world * batch, classes)
    steps = (3 if algorithm == "features" else 4) * (world - 1)
    local = batch if algorithm == "class_sums" else rows
    work = local * dim / constants["rows"] + batch * dim / constants["gradient"] + kinds * dim / constants["classes"]
    network = sent_bytes(world, batch, dim, classes, algorithm) / constants["bandwidth"]
    return constants["fixed"] + rows / constants["labels"] + steps * constants["latency"] + network + work


# Measuring


def best(work, times: int, clock=time.perf_counter) -> float:
    """Return the shortest of several times: longer ones were disturbed by other programs."""
    found = []
    for _ in range(times):
        start = clock()
        work()
        found.append(clock() - start)
    return min(found)


def step_of(batch: int, dim: int, classes: int, algorithm: str, group, seed: int = 0):
    generator = torch.Generator().manual_seed(seed)
    features = torch.rand(batch, dim, generator=generator, requires_grad=True)
    labels = torch.randint(classes, (batch,), generator=generator)

    def step() -> None:
        opl.orthogonal_projection(features, labels, group=group, algorithm=algorithm).loss.backward()

    return step


def work(rank: int, world: int, store: str, job: str, out: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world)
    found = {"constants": constants_alone, "network": constants_of_two, "check": check_one}[job]()
    if rank == 0:
        Path(out).write_text(json.dumps(found))
    dist.destroy_process_group()


def constants_alone() -> dict:
    """Rates of one process, by least squares with all rates positive, from the processor time of many shapes."""
    from scipy.optimize import nnls

    shapes = [(b, d, c) for b in (32, 256, 1024, 4096) for d in (64, 512, 2048) for c in (10, 1000) if b * d <= 1 << 21]
    table, times = [], []
    for batch, dim, classes in shapes:
        step = step_of(batch, dim, classes, "class_sums", dist.group.WORLD)
        step()
        times.append(best(step, 15, time.process_time))
        table.append([1, batch, batch * dim, present(batch, classes) * dim])
    weights = [1 / value for value in times]  # relative errors count
    scaled = [[weight * value for value in row] for weight, row in zip(weights, table, strict=True)]
    fixed, labels, rows, kinds = nnls(scaled, [1.0] * len(times))[0]
    rates = {"labels": labels, "rows": rows / 2, "gradient": rows / 2, "classes": kinds}
    return {"fixed": fixed, **{name: 1 / max(value, 1e-15) for name, value in rates.items()}}


def constants_of_two() -> dict:
    small, large = torch.zeros(1), torch.zeros(1 << 22)
    out = [torch.zeros(1) for _ in range(dist.get_world_size())]

    def latency() -> None:
        dist.all_gather(out, small)

    def bandwidth() -> None:
        dist.all_reduce(large)

    for warm_up in (latency, bandwidth):
        warm_up()
    alpha = best(latency, 200)
    return {"latency": alpha, "bandwidth": 4 * large.numel() / best(bandwidth, 15)}  # 2 * (W - 1) / W of it is sent


def check_one() -> list[dict]:
    rank, world = dist.get_rank(), dist.get_world_size()
    results = []
    for batch, dim, classes in CHECKED:
        for algorithm in ALGORITHMS:
            step = step_of(batch, dim, classes, algorithm, dist.group.WORLD, seed=rank)
            step()
            dist.barrier()
            before = written_bytes()
            for _ in range(4):
                step()
            sent = (written_bytes() - before) / 4
            dist.barrier()
            shape = {"world": world, "batch": batch, "dim": dim, "classes": classes, "algorithm": algorithm}
            results.append({**shape, "bytes": sent, "seconds": best(step, 15)})
    return results


def run(world: int, job: str):
    with tempfile.TemporaryDirectory() as folder:
        out = str(Path(folder) / "out.json")
        mp.spawn(work, (world, str(Path(folder) / "store"), job, out), nprocs=world)
        return json.loads(Path(out).read_text())


def measure() -> dict:
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    constants = run(1, "constants") | run(2, "network")
    checks = [entry for world in RANKS for entry in run(world, "check")]
    return {"constants": constants, "checks": checks}


# Showing


def show(found: dict) -> None:
    constants = found["constants"]
    print("constants: " + ", ".join(f"{name} {value:.3g}" for name, value in constants.items()))
    print(f"{'ranks':>6}{'B':>6}{'D':>6}{'C':>6}  algorithm       bytes: model, measured   ms: model, measured, ratio")
    for entry in found["checks"]:
        shape = [entry[name] for name in ("world", "batch", "dim", "classes", "algorithm")]
        expected, took = 1000 * seconds(constants, *shape), 1000 * entry["seconds"]
        volume = sent_bytes(*shape)
        print(
            "".join(f"{value:>6}" for value in shape[:4]) + f"  {shape[4]:<12}{volume:>12,.0f}{entry['bytes']:>12,.0f}"
            f"{expected:>14.2f}{took:>10.2f}{took / expected:>8.2f}"
        )


def draw(constants: dict, file: Path) -> None:
    """Bytes and seconds over ranks, for class sums and features; the crossover is where the lines of a class meet."""
    import matplotlib
    from matplotlib.figure import Figure

    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "opl"})
    ranks = [1 << power for power in range(1, 11)]
    figure = Figure(figsize=(10, 6.5), layout="constrained")
    axes = figure.subplots(2, 3)
    for column, batch in enumerate((32, 256, 1024)):
        for row, (label, of) in enumerate((("MB sent by a rank", sent_bytes), ("ms of a rank", None))):
            panel = axes[row][column]
            for color, classes in zip(("C0", "C1", "C2"), (100, 1000, 21_000), strict=True):
                values = [
                    of(world, batch, 512, classes, "class_sums") / 1e6
                    if of
                    else 1e3 * seconds(constants, world, batch, 512, classes, "class_sums")
                    for world in ranks
                ]
                panel.plot(ranks, values, color=color, label=f"class sums, C={classes:,}")
                cross = [world for world in ranks if world * batch >= 2 * present(world * batch, classes)]
                if cross and row == 0:
                    panel.plot(cross[0], values[ranks.index(cross[0])], "o", color=color)
            values = [
                of(world, batch, 512, 1000, "features") / 1e6
                if of
                else 1e3 * seconds(constants, world, batch, 512, 1000, "features")
                for world in ranks
            ]
            panel.plot(ranks, values, "k--", label="features")
            panel.set(xscale="log", yscale="log", xlabel="ranks", title=f"B={batch} a rank, D=512", ylabel=label)
            panel.set_xscale("log", base=2)
            panel.grid(alpha=0.3)
    axes[0][0].legend(fontsize=7)
    figure.savefig(file, metadata={"Date": None} if file.suffix == ".svg" else None)


def table(constants: dict) -> None:
    """Print the bytes that a rank sends with each algorithm, and the time of the chosen algorithm."""
    print("| ranks | B | C | D | MB, class sums | MB, features | taken | ms |\n|---|---|---|---|---|---|---|---|")
    for world in (2, 8, 64, 1024):
        for batch, classes, dim in ((32, 100, 64), (256, 1000, 512), (256, 1000, 2048), (1024, 21_000, 2048)):
            volumes = [sent_bytes(world, batch, dim, classes, algorithm) / 1e6 for algorithm in ALGORITHMS]
            taken = ALGORITHMS[0] if world * batch >= 2 * present(world * batch, classes) else ALGORITHMS[1]
            took = 1000 * seconds(constants, world, batch, dim, classes, taken)
            print(
                f"| {world:,} | {batch:,} | {classes:,} | {dim:,} | {volumes[0]:.2f} | {volumes[1]:.2f} "
                f"| {taken.replace('_', ' ')} | {took:.1f} |"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--from", dest="source", type=Path, help="constants and checks of an earlier measurement")
    parser.add_argument("--out", type=Path, help="where to write them")
    parser.add_argument("--figure", type=Path)
    parser.add_argument("--latency", type=float)
    parser.add_argument("--bandwidth", type=float)
    given = parser.parse_args()
    found = json.loads(given.source.read_text()) if given.source else measure()
    if given.out:
        given.out.write_text(json.dumps(found, indent=1))
    show(found)
    own = {"latency": given.latency, "bandwidth": given.bandwidth}
    constants = found["constants"] | {name: value for name, value in own.items() if value}
    table(constants)
    if given.figure:
        draw(constants, given.figure)


if __name__ == "__main__":
    main()
