"""Encoded images: decoded and cropped when a batch needs them, by loader processes, never all at once."""

import signal
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from ...errors import DataError
from ..allocator import return_large_blocks
from ..types import Images, Request
from .crops import TRIES, Box, central_box, decode_crop, random_box
from .read.picture_index import PictureFiles
from .read.picture_statistics import undecodable

Job = tuple[Any, Any]  # rows of the files, and the random numbers of their crops or None
BYTES_AT_ONCE = 32 << 20  # of floats, when images are read without training
BLOCK = 8 << 20  # bytes of memory from which a freed block goes back to the system


@dataclass(frozen=True)
class Decoding:
    """How pictures become images."""

    size: int
    """Height and width of the images."""
    mode: str
    """Pillow's `L` or `RGB`."""
    least: float
    """The smallest fraction of a picture's area that a random crop takes."""
    center: float
    """The side of the central crop, as a fraction of the shorter side."""
    draft: bool = True
    """Decode JPEGs at a reduced size where the crop allows it."""
    workers: int = 0
    """Processes that decode; 0 decodes in the process that trains."""
    prefetch: int = 2
    """Batches that each of them prepares in advance, which bounds the memory."""

    @property
    def channels(self) -> int:
        """Channels of the images."""
        return 1 if self.mode == "L" else 3


@dataclass(frozen=True)
class EncodedImages(Images):
    """A part of a data set whose images are encoded; `pixels` has their shape (0, C, size, size), and no image."""

    files: PictureFiles | None = None
    decoding: Decoding | None = None

    @classmethod
    def of(cls, files: PictureFiles, labels: Tensor, rows: Tensor, decoding: Decoding) -> "EncodedImages":
        """Return the images in some `rows` of the files."""
        shape = (0, decoding.channels, decoding.size, decoding.size)
        return cls(torch.zeros(shape, dtype=torch.uint8), labels, rows, None, files, decoding)

    @property
    def most_at_once(self) -> int:
        """As many images as have 32 MiB of floats, but at least one."""
        return max(1, BYTES_AT_ONCE // (4 * self.pixels.shape[1] * self.pixels.shape[2] ** 2))

    def take(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Decode the central crops of some images in this process."""
        chosen = self.rows[rows]
        return _checked(self._decoder()[chosen.numpy(), None]), self.labels[chosen]

    def serve(self, requests: Iterable[Request]) -> Iterator[tuple[Tensor, Tensor]]:
        """Decode the images of each request, in order, while later requests are decoded by the other processes."""
        return_large_blocks(BLOCK)
        decoder, labels = self._decoder(), deque[Tensor]()

        def jobs() -> Iterator[Job]:
            for request in requests:
                chosen = self.rows[request.rows]
                labels.append(self.labels[chosen])
                yield chosen.numpy(), _draws(request)

        settings: dict[str, Any] = {"num_workers": decoder.decoding.workers, "generator": torch.Generator()}
        if decoder.decoding.workers:
            settings |= {"prefetch_factor": decoder.decoding.prefetch, "worker_init_fn": _leave_stopping_to_the_run}
        try:
            for pixels in DataLoader(decoder, batch_size=None, sampler=jobs(), **settings):
                yield _checked(pixels), labels.popleft()
        except RuntimeError as error:
            if "DataLoader worker" not in str(error):
                raise
            raise DataError(
                "a process that decodes images has died, perhaps for lack of memory: give fewer --data.workers, or "
                "more shared memory (docker run --shm-size)."
            ) from error

    def _decoder(self) -> "_Decoder":
        assert self.files is not None
        assert self.decoding is not None
        return _Decoder(self.files, self.decoding)


def _leave_stopping_to_the_run(worker: int) -> None:
    """Have a worker ignore what stops a whole group of processes: the run still needs it for its last step."""
    for signum in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signum, signal.SIG_IGN)


class _Decoder(Dataset[Tensor | str]):
    """Decodes a job to (n, C, size, size) pixels; if that fails, the sentence that says why."""

    def __init__(self, files: PictureFiles, decoding: Decoding) -> None:
        self.files, self.decoding = files, decoding

    def __getitem__(self, job: Job) -> Tensor | str:
        rows, draws = job
        how = self.decoding
        pixels = np.empty((len(rows), how.size, how.size, how.channels), dtype=np.uint8)
        for place, row in enumerate(rows):
            box_of = partial(_box, how, None if draws is None else draws[place])
            try:
                pixels[place] = decode_crop(self.files.read(row), box_of, how.size, how.mode, how.draft)
            except Exception as error:  # Pillow raises many kinds for damaged pictures
                return undecodable(self.files.name(row), error)
        return torch.from_numpy(pixels).permute(0, 3, 1, 2)  # channels last in memory, as the network wants them


def _box(decoding: Decoding, draws: Any, width: int, height: int) -> Box:
    if draws is None:
        return central_box(width, height, decoding.center)
    return random_box(width, height, draws, decoding.least)


def _draws(request: Request) -> Any:
    """The random numbers of the crops of a request; they are drawn for the whole batch, whatever part is read here."""
    if request.seed is None:
        return None
    chance = torch.Generator().manual_seed(request.seed)
    return torch.rand(request.total, TRIES, 4, generator=chance, dtype=torch.float64)[request.places].tolist()


def _checked(pixels: Tensor | str) -> Tensor:
    if isinstance(pixels, str):
        raise DataError(pixels)
    return pixels
