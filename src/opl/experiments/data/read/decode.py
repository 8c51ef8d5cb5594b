"""Decoding of pictures to pixels, in several processes. `open_picture` is the only place that opens pictures.

Pillow holds the interpreter lock while it decodes small pictures, so threads do not help. The workers run this file as
a script that needs only Pillow and NumPy: they start in a fifth of a second, where `import opl` would load torch into
each, and, unlike `multiprocessing` workers, they do not import the running script.
"""

import io
import os
import signal
import struct
import subprocess
import sys
from collections import deque
from collections.abc import Generator, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from queue import SimpleQueue
from typing import IO, Any

import numpy as np
from PIL import Image, UnidentifiedImageError

Pixels = np.ndarray[Any, np.dtype[np.uint8]]


FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "GIF", "TIFF")
"""The formats that are opened. Pillow knows others that start programs, such as Ghostscript for EPS."""
MOST_PIXELS = 1 << 26  # of one picture
MOST_PIXELS_AT_ONCE = 1 << 28  # of the pictures that are decoded into one array


def open_picture(picture: bytes, formats: tuple[str, ...] = FORMATS) -> Image.Image:
    """Open an encoded picture whose pixels are not decoded yet.

    Raises:
        ValueError: it has none of the formats, or too many pixels.
    """
    try:
        opened = Image.open(io.BytesIO(picture), formats=formats)
    except UnidentifiedImageError as error:
        raise ValueError(f"a picture of {len(picture)} bytes is none of {', '.join(FORMATS)}") from error
    if opened.width * opened.height > MOST_PIXELS:
        raise ValueError(f"a picture of {opened.width} x {opened.height} has more than {MOST_PIXELS:,} pixels")
    return opened


def to_mode(picture: Image.Image, mode: str) -> Image.Image:
    """Convert a picture to Pillow's `L` or `RGB`; of 16 bits of gray the upper 8 stay, where Pillow cuts off at 255.

    Raises:
        ValueError: its pixels have no range that is known, such as floating-point numbers.
    """
    if picture.mode.startswith(("I", "F")):
        values = np.asarray(picture)
        if picture.mode == "F" or values.min() < 0 or values.max() >= 1 << 16:
            raise ValueError("a picture with more than 16 bits a pixel: save it with 8 or 16")
        picture = Image.fromarray((values >> 8).astype(np.uint8))
    return picture if picture.mode == mode else picture.convert(mode)


def decode(pictures: list[bytes], mode: str) -> Pixels:
    """Decode pictures of the same size to (n, C, H, W) pixels; `mode` is Pillow's `L` or `RGB`."""
    arrays, first = [], open_picture(pictures[0])
    if len(pictures) * first.width * first.height > MOST_PIXELS_AT_ONCE:
        raise ValueError(f"images of {first.width} x {first.height} are too large for this data set")
    for picture in pictures:
        opened = _open_similar(picture, first.format or "")
        if opened.size != first.size:
            raise ValueError(f"images of different sizes: {first.size[::-1]} and {opened.size[::-1]}")
        arrays.append(np.asarray(to_mode(opened, mode)))
    stacked = np.stack(arrays)
    return stacked[:, None] if stacked.ndim == 3 else np.ascontiguousarray(stacked.transpose(0, 3, 1, 2))


def _open_similar(picture: bytes, kind: str) -> Image.Image:
    """Try the format of another picture first: Pillow's search through the formats is slow."""
    try:
        return open_picture(picture, (kind,))
    except ValueError:
        return open_picture(picture)


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
            _send(stdin, pictures)
            words, content = _receive(stdout)
        except (OSError, EOFError) as error:
            raise ValueError("a process that decodes has died, perhaps for lack of memory") from error
        if not words:
            raise ValueError(content.decode(errors="replace"))
        return np.frombuffer(content, np.uint8).reshape(np.frombuffer(words, np.int64))


def _send(stream: IO[bytes], parts: Sequence[bytes]) -> None:
    """Write byte strings, preceded by their number and lengths."""
    stream.write(struct.pack(f"<Q{len(parts)}Q", len(parts), *map(len, parts)))
    for part in parts:
        stream.write(part)
    stream.flush()


def _receive(stream: IO[bytes]) -> list[bytes]:
    """Read what `_send` wrote."""
    (count,) = struct.unpack("<Q", _exactly(stream, 8))
    return [_exactly(stream, length) for length in struct.unpack(f"<{count}Q", _exactly(stream, 8 * count))]


def _exactly(stream: IO[bytes], length: int) -> bytes:
    found = stream.read(length)
    if len(found) < length:
        raise EOFError(f"{len(found)} of {length} bytes")
    return found


def _work(mode: str) -> None:
    """Reply to each list of pictures on stdin with the shape and pixels, or with an error message, until stdin ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent process handles Ctrl-C
    while True:
        try:
            pictures = _receive(sys.stdin.buffer)
        except EOFError:
            return
        try:
            pixels = decode(pictures, mode)
            answer = [np.asarray(pixels.shape, np.int64).tobytes(), pixels.tobytes()]
        except Exception as error:  # any error that Pillow raises for a picture
            answer = [b"", " ".join(f"{type(error).__name__}: {error}".split()).encode()]
        _send(sys.stdout.buffer, answer)


if __name__ == "__main__":
    _work(sys.argv[1])
