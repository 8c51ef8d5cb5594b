"""Speed of reading images: the loader vs a bare Pillow loop with the same number of processes.

    python benchmarks/synthetic_imagenet.py /tmp/imagenet
    python benchmarks/loader.py /tmp/imagenet/folders --workers 2

The bare loop decodes, crops and resizes the same images with the same boxes, in as many processes, and drops the
result. `loader` is `EncodedImages.serve` (pixels in the training process), `batches` the same up to normalized floats;
`draft` decodes JPEGs at a reduced size where the crop allows it. The versions take turns on different images of each
round; both images per second and processor time per image are printed; other programs do not affect the latter.
`--memory` runs two epochs over all training images and prints the resident memory of this process over time.
"""

import argparse
import io
import json
import multiprocessing
import resource
import statistics
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch
from PIL import Image

from opl.experiments.data import Batches, ImageFolder, ImageNet
from opl.experiments.data.augment import random_box
from opl.experiments.seeds import Purpose
from opl.experiments.types import Request

BATCH = 64


def draws_of(step: int) -> list:
    chance = Purpose.CROP.generator(0, 0, step)
    return torch.rand(BATCH, 10, 4, generator=chance, dtype=torch.float64).tolist()


def bare(files: list[bytes], size: int, step: int) -> None:
    """A plain loop with Pillow."""
    for name, draws in zip(files, draws_of(step), strict=True):
        with open(name, "rb") as file, Image.open(io.BytesIO(file.read()), formats=["JPEG"]) as image:
            left, top, wide, tall = random_box(*image.size, draws, 0.08)
            crop = image.convert("RGB").crop((left, top, left + wide, top + tall))
            crop.resize((size, size), Image.Resampling.BILINEAR)


def processor_seconds() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def measured(work) -> tuple[float, float]:
    """Return wall time and processor time; children are included and must have ended."""
    clock, before = time.perf_counter(), processor_seconds()
    work()
    return time.perf_counter() - clock, processor_seconds() - before


def run_bare(names: list[list[bytes]], size: int, workers: int) -> None:
    if workers == 0:
        for step, files in enumerate(names):
            bare(files, size, step)
        return
    with multiprocessing.get_context("fork").Pool(workers) as pool:
        pool.starmap(partial(_bare_words, size), list(enumerate(names)), chunksize=1)
        pool.close()
        pool.join()


def _bare_words(size: int, step: int, files: list[bytes]) -> None:
    bare(files, size, step)


def run_loader(part, rows: torch.Tensor) -> None:
    requests = (
        Request(some, Purpose.CROP.seed(0, 0, step), slice(None), BATCH) for step, some in enumerate(rows.split(BATCH))
    )
    for _ in part.serve(requests):
        pass


def run_batches(data, part, rows: torch.Tensor) -> None:
    settings = {"seed": 0, "augment": data.augment, "mean": data.mean, "std": data.std, "device": "cpu"}
    for _ in Batches(replace(part, rows=part.rows[rows]), BATCH, **settings).epoch(0):
        pass


def compare(data, rounds: int, count: int, workers: int) -> dict:
    part = data.load(0).train
    plain, draft = (replace(part, crops=replace(part.crops, draft=on, workers=workers)) for on in (False, True))
    files = [str(part.files.read(row)).encode() for row in part.rows.tolist()]
    times: dict[str, list] = {name: [] for name in ("bare", "loader", "loader, draft", "batches", "batches, draft")}
    order = torch.randperm(len(part), generator=torch.Generator().manual_seed(0))
    for number in range(rounds):
        rows = order[number * count : (number + 1) * count]
        names = [[files[row] for row in some.tolist()] for some in rows.split(BATCH)]
        versions = {
            "bare": partial(run_bare, names, data.size, workers),
            "loader": partial(run_loader, plain, rows),
            "loader, draft": partial(run_loader, draft, rows),
            "batches": partial(run_batches, data, plain, rows),
            "batches, draft": partial(run_batches, data, draft, rows),
        }
        for name in list(versions)[number % 5 :] + list(versions)[: number % 5]:
            times[name].append(measured(versions[name]))
    found: dict = {"workers": workers, "size": data.size, "images": count, "rounds": rounds}
    for name, pairs in times.items():
        clock = statistics.median(base[0] / own[0] for base, own in zip(times["bare"], pairs, strict=True))
        processor = statistics.median(base[1] / own[1] for base, own in zip(times["bare"], pairs, strict=True))
        rate = statistics.median(count / own[0] for own in pairs)
        milliseconds = statistics.median(1000 * own[1] / count for own in pairs)
        found[name] = {
            "images/s": rate,
            "of bare": clock,
            "ms of processor": milliseconds,
            "of bare, processor": processor,
        }
    return found


def resident() -> float:
    """Return the resident memory of this process in megabytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) / 1024


def memory(data, epochs: int = 2) -> dict:
    part = data.load(0).train
    settings = {"seed": 0, "augment": data.augment, "mean": data.mean, "std": data.std, "device": "cpu"}
    batches = Batches(part, BATCH, **settings)
    marks, start = [], resident()
    for epoch in range(epochs):
        for step, _ in enumerate(batches.epoch(epoch)):
            if step % max(1, batches.steps // 10) == 0:
                marks.append(round(resident()))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"images": len(part), "before": round(start), "marks": marks, "peak": round(peak)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", help="class folders, with 'train' in it")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--images", type=int, default=640, help="of each version in a round")
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--parquet", action="store_true", help="with --memory: the folder has Parquet files")
    given = parser.parse_args()
    torch.set_num_threads(1)
    kind = ImageNet if given.parquet else ImageFolder
    data = kind(root=given.folder, size=given.size, val=0.0, workers=given.workers[0])
    if given.memory:
        print(json.dumps(memory(data)))
        return
    for workers in given.workers:
        found = compare(data, given.rounds, given.images, workers)
        print(f"{workers} workers, {data.size} px, {given.rounds} rounds of {given.images} images")
        for name, values in found.items():
            if isinstance(values, dict):
                print(f"{name:>16}" + "".join(f"  {key} {value:8.2f}" for key, value in values.items()))


if __name__ == "__main__":
    main()
