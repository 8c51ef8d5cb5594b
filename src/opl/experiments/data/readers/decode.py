"""Decoding of pictures to pixels, in several processes.

Pillow holds the interpreter lock while it decodes small pictures, so threads do not help. The workers run this file as
a script that needs only Pillow and NumPy: they start in a fifth of a second, where `import opl` would load torch into
each, and, unlike `multiprocessing` workers, they do not import the running script.
"""

import io
import os
import pickle
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from queue import SimpleQueue
from typing import Any

import numpy as np
from PIL import Image, UnidentifiedImageError

Pixels = np.ndarray[Any, np.dtype[np.uint8]]


def decode(pictures: list[bytes], mode: str) -> Pixels:
    """Decode pictures of the same size to (n, C, H, W) pixels; `mode` is Pillow's `L` or `RGB`."""
    arrays, kind = [], ""
    for picture in pictures:
        opened = _open(picture, kind)
        kind = opened.format or ""
        arrays.append(np.asarray(opened.convert(mode)))
    if sizes := {array.shape for array in arrays[1:]} - {arrays[0].shape}:
        raise ValueError(f"images of different sizes: {arrays[0].shape[:2]} and {sizes.pop()[:2]}")
    stacked = np.stack(arrays)
    return stacked[:, None] if stacked.ndim == 3 else np.ascontiguousarray(stacked.transpose(0, 3, 1, 2))


def _open(picture: bytes, kind: str) -> Image.Image:
    """Try the format of the previous picture first: Pillow's search through dozens of formats is slow."""
    try:
        return Image.open(io.BytesIO(picture), formats=(kind,) if kind else None)
    except UnidentifiedImageError:
        return Image.open(io.BytesIO(picture))


def decode_all(batches: Iterable[list[bytes]], mode: str, workers: int = 0) -> Generator[Pixels, None, None]:
    """Decode batches in order, in `workers` processes (0: one per core, at most 8).

    Raises:
        ValueError: a picture cannot be decoded, or pictures differ in size.
    """
    workers = workers or min(_cores(), 8)
    with ExitStack() as stack:
        idle: SimpleQueue[_Worker] = SimpleQueue()
        for _ in range(workers):
            idle.put(stack.enter_context(_Worker(mode)))

        def ask(pictures: list[bytes]) -> Pixels:
            worker = idle.get()
            try:
                return worker(pictures)
            finally:
                idle.put(worker)

        threads = stack.enter_context(ThreadPoolExecutor(workers))  # exited before the workers
        waiting: deque[Future[Pixels]] = deque()
        for pictures in batches:
            waiting.append(threads.submit(ask, pictures))
            if len(waiting) > 2 * workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _cores() -> int:
    """Return the number of cores available to this process, or of all cores if the system does not report it."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


class _Worker:
    def __init__(self, mode: str) -> None:
        self.command = [sys.executable, "-P", __file__, mode]

    def __enter__(self) -> "_Worker":
        self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()

    def __call__(self, pictures: list[bytes]) -> Pixels:
        stdin, stdout = self.process.stdin, self.process.stdout
        assert stdin is not None
        assert stdout is not None
        try:
            pickle.dump(pictures, stdin, protocol=5)
            stdin.flush()
            answer = pickle.load(stdout)
        except (OSError, EOFError, pickle.UnpicklingError) as error:
            raise ValueError("a process that decodes has died, perhaps for lack of memory") from error
        if isinstance(answer, str):
            raise ValueError(answer)
        return np.asarray(answer, dtype=np.uint8)


def _work(mode: str) -> None:
    """Reply to each list of pictures on stdin with their pixels, or with an error message, until stdin ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent process handles Ctrl-C
    while True:
        try:
            pictures = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        try:
            answer: object = decode(pictures, mode)
        except Exception as error:  # any error that Pillow raises for a picture
            answer = " ".join(f"{type(error).__name__}: {error}".split())
        pickle.dump(answer, sys.stdout.buffer, protocol=5)
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    _work(sys.argv[1])
