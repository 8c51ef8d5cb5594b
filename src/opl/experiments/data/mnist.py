"""MNIST and Fashion-MNIST."""

from dataclasses import dataclass
from typing import ClassVar

from .file_data_set import FileDataSet


@dataclass(frozen=True)
class Mnist(FileDataSet):
    """MNIST: 60,000 training and 10,000 test images of handwritten digits, 28 x 28, grayscale; not augmented."""

    name: ClassVar[str] = "mnist"
    channels: ClassVar[int] = 1
    size: ClassVar[int] = 28
    all_classes: ClassVar[int] = 10
    mean: ClassVar[tuple[float, ...]] = (0.1307,)
    std: ClassVar[tuple[float, ...]] = (0.3081,)


@dataclass(frozen=True)
class FashionMnist(FileDataSet):
    """Fashion-MNIST: 60,000 training and 10,000 test images of clothes, 28 x 28, grayscale; not augmented.

    It can also be read from idx files.
    """

    name: ClassVar[str] = "fashion-mnist"
    channels: ClassVar[int] = 1
    size: ClassVar[int] = 28
    all_classes: ClassVar[int] = 10
    mean: ClassVar[tuple[float, ...]] = (0.2860,)
    std: ClassVar[tuple[float, ...]] = (0.3530,)
