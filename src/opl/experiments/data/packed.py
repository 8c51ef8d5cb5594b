"""Images that were decoded once for `opl try`, with their parts, in a folder beside the runs."""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import torch
from torch import Tensor

from ..._ranges import CountOrZero, Fraction, Name, Pixels, check_settings
from ...errors import DataError
from ..types import Augmentation, DataSet, Images, Splits
from .augment import Flip, PadCrop
from .read.pack import PARTS, PackFacts, read_arrays, read_facts
from .split import split


@dataclass(frozen=True)
class PackedImages(DataSet):
    """Your own pictures, as `opl try` has decoded them; their parts are the same in all runs."""

    name: Name = "images"
    root: str = ""
    """The folder of the decoded pictures."""
    key: str = ""
    """Names the files that they were made of; others are refused."""
    size: Pixels = 64
    """Height and width of the images."""
    images: CountOrZero = 0
    """Use only this many training images, and the same fraction of the validation images; 0 uses all."""
    padding: CountOrZero = 4
    """Zero-pad by this many pixels and crop at a random position; 0 disables it."""
    flip: Fraction = 0.5
    """Probability of a horizontal flip."""

    @property
    def augment(self) -> tuple[Augmentation, ...]:
        """Random crop and flip."""
        return (*((PadCrop(self.padding),) if self.padding else ()), *((Flip(self.flip),) if self.flip else ()))

    @property
    def channels(self) -> int:
        """1 if all pictures are gray, otherwise 3."""
        return self._facts().channels

    @property
    def num_classes(self) -> int:
        """Number of classes."""
        return len(self._facts().class_names)

    @property
    def mean(self) -> tuple[float, ...]:
        """Mean of each channel."""
        return self._facts().mean

    @property
    def std(self) -> tuple[float, ...]:
        """Standard deviation of each channel."""
        return self._facts().std

    def check(self) -> None:
        """Raise an error for settings out of their range."""
        check_settings(self, "data.")

    def load(self, seed: int) -> Splits:
        """Open the decoded pictures."""
        self.check()
        facts = self._facts()
        arrays = read_arrays(Path(self.root))
        pixels, labels = torch.from_numpy(arrays["pixels"]), torch.from_numpy(arrays["labels"].astype("int64"))
        parts = torch.from_numpy(arrays["parts"].astype("int64"))
        train, val, test = ((parts == number).nonzero().flatten() for number in range(len(PARTS)))
        if 0 < self.images < len(train):
            fraction = self.images / len(train)
            train, val = (_some(labels, part, round(fraction * len(part))) for part in (train, val))
        fit, judged, tested = (Images(pixels, labels, part) for part in (train, val, test))
        return Splits(fit, judged, tested, facts.class_names, facts.source)

    def _facts(self) -> PackFacts:
        return _facts(self.root, self.key)


def _some(labels: Tensor, rows: Tensor, number: int) -> Tensor:
    """Some of the rows, the same fraction of every class; at least one if there are any."""
    if not len(rows):
        return rows
    return rows[split(labels[rows], min(max(1, number), len(rows) - 1), seed=0, stratified=True)[1]]


@lru_cache(maxsize=8)
def _facts(root: str, key: str) -> PackFacts:
    facts = read_facts(Path(root))
    if facts is None or facts.key != key:
        what = "no decoded pictures" if facts is None else "other pictures than those of this run"
        raise DataError(f"there are {what} in {root!r}: run the same opl try again, or move them back.")
    return facts
