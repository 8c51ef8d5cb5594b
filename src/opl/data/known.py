"""The data sets that we know how to read: what they are called, what they hold, and where they come from."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Known:
    """A data set that we know how to read; columns are candidates, the first that is there is taken."""

    name: str
    hub: str
    """Its id on the Hub; empty where there is none to recommend."""
    images: Mapping[str, int]
    """Its splits, and the number of images in each."""
    num_classes: int
    mode: str
    """What the pictures are turned into: Pillow's `L` or `RGB`."""
    licence: str
    """Its terms, and where it comes from."""
    image_columns: tuple[str, ...] = ("img", "image")
    label_columns: tuple[str, ...] = ("fine_label", "label")
    other_columns: tuple[str, ...] = ()
    """Further labels to keep, where they are there."""
    respell: Mapping[str, str] = field(default_factory=dict)
    """Class names to correct."""


_SETS = (
    Known(
        "mnist", "ylecun/mnist", {"train": 60_000, "test": 10_000}, 10, "L", "no formal licence, cite LeCun et al. 1998"
    ),
    Known(
        "cifar100",
        "uoft-cs/cifar100",
        {"train": 50_000, "test": 10_000},
        100,
        "RGB",
        "no formal licence, cite Krizhevsky 2009; www.cs.toronto.edu/~kriz/cifar.html",
        other_columns=("coarse_label",),
        respell={"cra": "crab"},
    ),
    Known(
        "pacs",
        "flwrlabs/pacs",
        {"train": 9_991},
        7,
        "RGB",
        "no formal licence, research; cite Li et al. 2017",
        other_columns=("domain",),
    ),
    Known(
        "omniglot",
        "",
        {"train": 32_460},
        1_623,
        "L",
        "MIT; github.com/brendenlake/omniglot",
        other_columns=("alphabet", "character"),
    ),
    Known(
        "imagenet",
        "ILSVRC/imagenet-1k",
        {"train": 1_281_167, "validation": 50_000},
        1_000,
        "RGB",
        "non-commercial research; accept the terms on the Hub or at image-net.org",
    ),
)
KNOWN: dict[str, Known] = {known.name: known for known in _SETS}
