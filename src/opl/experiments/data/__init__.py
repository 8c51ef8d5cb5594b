"""Data sets: located, decoded once, split, and served as batches that do not depend on the number of processes."""

from typing import Any

from ...errors import DataError
from ..types import DataSet as _DataSet
from .augment import ColorJitter, Flip, Grayscale, Normalize, PadCrop, RandomResizedCrop
from .batches import Batches
from .domains import DomainFolder, Pacs
from .few_shot import CifarFS, MiniImageNet, TieredImageNet
from .large_images import ImageFolder, ImageNet, JpegCopies
from .meta_dataset import MetaSource
from .noisy_labels import NOISES, ClassDependent, NoiseMatrix, PairFlip, UniformNoise
from .read.catalog import CATALOG
from .read.find import find, find_local, is_here
from .read.parquet import count_rows
from .small_images import (
    Cifar10,
    Cifar100,
    Digits,
    FashionMnist,
    FastCifar10,
    FastCifar100,
    LongTailedCifar100,
    Mnist,
    TwoViewsCifar10,
)
from .split import split
from .synthetic import Synthetic, SyntheticDomains, SyntheticLongTail, SyntheticSource, SyntheticTwoViews
from .user_images import UserImages

__all__ = [
    "CATALOG",
    "DATA_SETS",
    "NOISES",
    "Batches",
    "Cifar10",
    "Cifar100",
    "CifarFS",
    "ClassDependent",
    "ColorJitter",
    "Digits",
    "DomainFolder",
    "FashionMnist",
    "FastCifar10",
    "FastCifar100",
    "Flip",
    "Grayscale",
    "ImageFolder",
    "ImageNet",
    "JpegCopies",
    "LongTailedCifar100",
    "MetaSource",
    "MiniImageNet",
    "Mnist",
    "NoiseMatrix",
    "Normalize",
    "Pacs",
    "PadCrop",
    "PairFlip",
    "RandomResizedCrop",
    "Synthetic",
    "SyntheticDomains",
    "SyntheticLongTail",
    "SyntheticSource",
    "SyntheticTwoViews",
    "TieredImageNet",
    "TwoViewsCifar10",
    "UniformNoise",
    "UserImages",
    "describe",
    "find",
    "is_here",
    "split",
]


def describe() -> list[dict[str, Any]]:
    """List the available data sets, where they are, and how to get the others.

    It neither uses the network nor decodes anything. Each entry has `name`, `here` (whether it is available), `where`
    (the folder, the Hub id, or what is wrong with it), `images` (the number available, or the size of the complete data
    set if it is not), `classes`, `parts` (the images of each part of the complete data set), `source` (the shortest way
    to get it) and `get` (every way, and the license).
    """
    digits = {"name": "digits", "here": True, "where": "scikit-learn", "images": 1797, "classes": 10}
    rows: list[dict[str, Any]] = [{**digits, "parts": {"all": 1797}, "source": "built in", "get": "built in"}]
    for known in CATALOG.values():
        hub = f"Hub {known.hub}, or " if known.hub else ""
        row = {"name": known.name, "here": False, "where": "", "images": sum(known.images.values())}
        row |= {"classes": known.num_classes, "parts": dict(known.images)}
        folders = " or ".join(f"{name}/" for name in known.folders)
        row["source"] = f"Hub {known.hub}" if known.hub else f"a folder {folders} in $OPL_DATA"
        row["get"] = f"{hub}a folder {folders} in $OPL_DATA; {known.license}"
        try:
            if files := find_local(known):
                row.update(here=True, where=files.where, images=count_rows(files) or row["images"])
        except DataError as error:
            row["where"] = str(error)
        rows.append(row)
    return rows


DATA_SETS: tuple[type[_DataSet], ...] = tuple(
    value
    for name, value in globals().items()
    if name in __all__ and isinstance(value, type) and _DataSet in value.__mro__
)
"""The data sets that a recipe may name."""
