"""MNIST and Fashion-MNIST."""

from dataclasses import dataclass
from typing import ClassVar

from .file_data_set import FileDataSet


@dataclass(frozen=True)
class Mnist(FileDataSet):
    """MNIST: 60,000 and 10,000 handwritten digits, 28 x 28, gray; not augmented."""

    name: ClassVar[str] = "mnist"
    channels: ClassVar[int] = 1
    size: ClassVar[int] = 28
    all_classes: ClassVar[int] = 10
    mean: ClassVar[tuple[float, ...]] = (0.1307,)
    std: ClassVar[tuple[float, ...]] = (0.3081,)


@dataclass(frozen=True)
class FashionMnist(FileDataSet):
    """Fashion-MNIST: 60,000 and 10,000 pictures of clothes, 28 x 28, gray; not augmented. Read from idx files too."""

    name: ClassVar[str] = "fashion-mnist"
    channels: ClassVar[int] = 1
    size: ClassVar[int] = 28
    all_classes: ClassVar[int] = 10
    mean: ClassVar[tuple[float, ...]] = (0.2860,)
    std: ClassVar[tuple[float, ...]] = (0.3530,)
