"""scikit-learn's digits."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch

from ..._ranges import CountOrZero, Range, SeedOrOfRun, check_settings
from ...errors import OptionError
from ..types import Augmentation, DataSet, Images, Splits
from .split import split

IMAGES = 1797


@dataclass(frozen=True)
class Digits(DataSet):
    """scikit-learn's handwritten digits: 1,797 grayscale images, 8 x 8; no download needed, not augmented."""

    root: str = ""
    """Unused: the data set is built into scikit-learn."""
    test_fraction: Annotated[float, Range(0, 1, above=True, below=True)] = 0.5
    """Fraction of every class in the test set; the same images in all runs."""
    val: CountOrZero = 0
    """Training images held out for validation, the same fraction of every class."""
    split_seed: SeedOrOfRun = 0
    """Random seed of the validation set, equal for all runs; -1 uses the run's seed. It never affects the test set."""

    name: ClassVar[str] = "digits"
    channels: ClassVar[int] = 1
    size: ClassVar[int] = 8
    num_classes: ClassVar[int] = 10
    mean: ClassVar[tuple[float, ...]] = (0.3053,)
    std: ClassVar[tuple[float, ...]] = (0.3759,)
    augment: ClassVar[tuple[Augmentation, ...]] = ()

    def check(self) -> None:
        """Raise an error for fractions out of range, or for more validation than training images."""
        check_settings(self, "data.")
        images = IMAGES - round(self.test_fraction * IMAGES)
        if self.val >= max(1, images):
            raise OptionError(f"data.val is {self.val}, but digits has {images} training images: hold out fewer.")

    def load(self, seed: int) -> Splits:
        """Split the data set; `seed` matters only if `split_seed` is -1."""
        from sklearn.datasets import load_digits

        self.check()
        raw = load_digits()
        pixels = torch.from_numpy(raw.images).mul(255 / 16).round().to(torch.uint8)[:, None]  # 0 to 16 -> 0 to 255
        labels = torch.from_numpy(raw.target).long()
        train, test = split(labels, round(self.test_fraction * len(labels)), seed=0, stratified=True)
        fit, val = split(
            labels[train], self.val, seed=seed if self.split_seed == -1 else self.split_seed, stratified=True
        )
        names = tuple(str(digit) for digit in range(self.num_classes))
        fit_part, val_part, test_part = (Images(pixels, labels, rows) for rows in (train[fit], train[val], test))
        return Splits(fit_part, val_part, test_part, names, "scikit-learn")
