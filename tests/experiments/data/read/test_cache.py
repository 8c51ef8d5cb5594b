"""The cache: decoded once and correctly, checked, and safe with several processes and a full disk."""

import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from _image_files import write_mnist
from opl.errors import DataError
from opl.experiments.data.read import cache, serve

pytestmark = pytest.mark.usefixtures("apart")


def cached(tmp_path: Path) -> list[Path]:
    return sorted(path for path in (tmp_path / "cache").iterdir() if path.is_dir())


def test_decoded_pixels_and_labels_equal_the_encoded_ones(shelf):
    parts = write_mnist(shelf / "mnist")
    decoded = serve.load("mnist")
    for name, (pixels, labels) in parts.items():
        assert torch.equal(decoded.parts[name].pixels, torch.from_numpy(pixels)[:, None])
        assert decoded.parts[name].labels.tolist() == labels
    assert decoded.class_names == tuple("0123456789")


def test_a_data_set_is_decoded_once_and_again_when_it_changed(shelf, tmp_path, monkeypatch):
    write_mnist(shelf / "mnist")
    builds, build = [], cache._build
    monkeypatch.setattr(cache, "_build", lambda *given: (builds.append(given), build(*given))[1])
    for _ in range(3):
        serve.load("mnist")
    assert len(builds) == 1
    other = write_mnist(shelf / "mnist", seed=1)
    assert torch.equal(serve.load("mnist").parts["test"].pixels[:, 0], torch.from_numpy(other["test"][0]))
    assert len(builds) == 2


def test_writes_to_the_pixels_do_not_reach_the_disk(shelf, recwarn):
    write_mnist(shelf / "mnist")
    pixels = serve.load("mnist").parts["train"].pixels
    before = pixels[0].clone()
    pixels[0] = 7
    assert torch.equal(serve.load("mnist").parts["train"].pixels[0], before)
    assert not [warning for warning in recwarn if "writable" in str(warning.message)]


def test_a_warm_start_imports_none_of_the_heavy_libraries(shelf):
    write_mnist(shelf / "mnist")
    serve.load("mnist")
    code = "import sys; from opl.experiments.data import Mnist; Mnist(val=5).load(0); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert "opl.experiments.data.read.serve" in loaded
    assert not {"datasets", "pyarrow", "huggingface_hub", "rich", "PIL"} & set(loaded)


def _load_and_log(log: str, barrier) -> None:
    build = cache._build

    def logged(*given):
        with open(log, "a") as stream:
            stream.write("built\n")
        time.sleep(0.5)
        return build(*given)

    cache._build = logged
    barrier.wait()
    decoded = serve.load("mnist")
    with open(log, "a") as stream:
        stream.write(f"{int(decoded.parts['train'].pixels.long().sum())}\n")


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 8])
def test_processes_at_once_build_one_cache_and_all_use_it(shelf, tmp_path, count):
    parts = write_mnist(shelf / "mnist")
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(count)
    processes = [context.Process(target=_load_and_log, args=(str(tmp_path / "log"), barrier)) for _ in range(count)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(300)
    total = str(int(parts["train"][0].astype(np.int64).sum()))
    assert sorted((tmp_path / "log").read_text().split()) == sorted(["built", *[total] * count])
    assert len(cached(tmp_path)) == 1


def _build_until_killed() -> None:
    save = serve.np.save

    def save_and_hang(*given):
        save(*given)
        time.sleep(60)

    serve.np.save = save_and_hang
    serve.load("mnist")


@pytest.mark.slow
def test_a_killed_build_is_not_used_and_leaves_no_lock_and_no_files(shelf, tmp_path):
    parts = write_mnist(shelf / "mnist")
    process = multiprocessing.get_context("spawn").Process(target=_build_until_killed)
    process.start()
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob("cache/.mnist-*/train.label.npy")) and time.monotonic() < deadline:
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGKILL)
    process.join(10)
    left = cached(tmp_path)
    assert len(left) == 1
    assert left[0].name.startswith(".")
    decoded = serve.load("mnist")
    assert torch.equal(decoded.parts["train"].pixels[:, 0], torch.from_numpy(parts["train"][0]))
    assert [folder.name[0] for folder in cached(tmp_path)] == ["m"]


def test_a_read_only_cache_is_refused_in_one_sentence(shelf, tmp_path, monkeypatch):
    write_mnist(shelf / "mnist")
    (tmp_path / "file").touch()
    monkeypatch.setenv("OPL_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(DataError, match=r"cannot be written \(Not a directory\): set OPL_CACHE"):
        serve.load("mnist")


def test_a_full_disk_is_reported_in_one_sentence_and_leaves_nothing(shelf, tmp_path):
    write_mnist(shelf / "mnist")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, limits[1]))  # to the writer, the same as a full disk
    try:
        with pytest.raises(DataError, match="cannot be written"):
            serve.load("mnist")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert cached(tmp_path) == []


def test_a_finished_cache_needs_no_write_permission(shelf, tmp_path, monkeypatch):
    write_mnist(shelf / "mnist")
    serve.load("mnist")
    monkeypatch.setattr(cache, "FileLock", None)  # without write permission, nothing can be locked
    serve.load("mnist")
