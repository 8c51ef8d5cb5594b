"""Data: where it comes from, decoded once, cut into parts, and served as batches that any process count agrees on."""

from typing import Any

from ...errors import DataError
from .augment import (
    Augmentation,
    ColorJitter,
    Flip,
    Grayscale,
    Normalize,
    PadCrop,
    QuarterTurns,
    RandomResizedCrop,
    rotate,
)
from .batches import Batches, seed_for
from .domains import DomainFolder, Pacs
from .few_shot import CifarFS, MiniImageNet, TieredImageNet
from .noisy_labels import ClassDependent, Noise, NoiseMatrix, PairFlip, UniformNoise
from .readers.catalog import CATALOG, CatalogEntry
from .readers.source import find, find_local
from .sets import Cifar10, Cifar100, DataSet, Digits, FashionMnist, Mnist, Synthetic
from .split import split, subset
from .synthetic_domains import SyntheticDomains

__all__ = [
    "CATALOG",
    "Augmentation",
    "Batches",
    "CatalogEntry",
    "Cifar10",
    "Cifar100",
    "CifarFS",
    "ClassDependent",
    "ColorJitter",
    "DataSet",
    "Digits",
    "DomainFolder",
    "FashionMnist",
    "Flip",
    "Grayscale",
    "MiniImageNet",
    "Mnist",
    "Noise",
    "NoiseMatrix",
    "Normalize",
    "Pacs",
    "PadCrop",
    "PairFlip",
    "QuarterTurns",
    "RandomResizedCrop",
    "Synthetic",
    "SyntheticDomains",
    "TieredImageNet",
    "UniformNoise",
    "describe",
    "find",
    "find_local",
    "rotate",
    "seed_for",
    "split",
    "subset",
]


def describe() -> list[dict[str, Any]]:
    """Which data sets are here, from where, and how to get the rest; asks no network and decodes nothing.

    Each has `name`, `here`, `where` (the folder, the Hub id, or what is wrong with it), `images` (those here, or of the
    complete data set where it is not) and `get`.
    """
    rows: list[dict[str, Any]] = [
        {"name": "digits", "here": True, "where": "scikit-learn", "images": 1797, "get": "built in"}
    ]
    for known in CATALOG.values():
        hub = f"Hub {known.hub}, or " if known.hub else ""
        row = {"name": known.name, "here": False, "where": "", "images": sum(known.images.values())}
        folders = " or ".join(f"{name}/" for name in (known.name, known.made_of) if name)
        row["get"] = f"{hub}a folder {folders} in $OPL_DATA; {known.license}"
        try:
            if found := find_local(known):
                row.update(here=True, where=found.where, images=found.count() or row["images"])
        except DataError as error:
            row["where"] = str(error)
        rows.append(row)
    return rows
