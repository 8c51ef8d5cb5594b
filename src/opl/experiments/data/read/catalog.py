"""The catalog of known data sets: their names, contents and sources."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class CatalogEntry:
    """A known data set. Column names are candidates; the first one that exists is used."""

    name: str
    hub: str = ""
    """Its id on the Hub; empty if there is none to recommend."""
    images: Mapping[str, int] = field(default_factory=dict)
    """Its splits, and the number of images in each; empty or 0 if they are not known."""
    num_classes: int = 0
    license: str = "see its source"
    """Its license and source."""
    mode: str = "RGB"
    """The Pillow mode that images are converted to: `L` or `RGB`."""
    image_columns: tuple[str, ...] = ("img", "image")
    label_columns: tuple[str, ...] = ("fine_label", "label")
    other_columns: tuple[str, ...] = ()
    """Further label columns to keep, if they exist."""
    respell: Mapping[str, str] = field(default_factory=dict)
    """Corrections of class names."""
    lists: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """For few-shot data sets: the class names of each part; the parts have no class in common."""
    per_class: int = 0
    """Images per class, if it is the same for all classes; otherwise 0."""
    size: int = 0
    """Required height and width of the images; 0 allows any."""
    made_of: str = ""
    """Another data set that it can be built from."""
    names: tuple[str, ...] = ()
    """Class names in order of class id, for files that do not contain them."""
    idx: bool = False
    """Whether it is also distributed as idx files."""

    @property
    def channels(self) -> int:
        """Channels of the images."""
        return 1 if self.mode == "L" else 3

    @property
    def folders(self) -> tuple[str, ...]:
        """The folders in `$OPL_DATA` that may hold it."""
        return (self.name, self.made_of) if self.made_of else (self.name,)

    @property
    def classes(self) -> dict[str, int]:
        """For few-shot data sets: the number of classes in each part; otherwise empty."""
        return {part: len(names) for part, names in self.lists.items()}


def _few_shot_classes() -> dict[str, dict[str, tuple[str, ...]]]:
    """Read the classes of each part of the few-shot data sets, alphabetical, as published; WordNet ids or names."""
    folder = Path(__file__).parent
    lists = json.loads((folder / "few_shot_classes.json").read_text(encoding="utf-8"))
    specification = json.loads((folder.parent / "specifications" / "cifar-fs.json").read_text(encoding="utf-8"))
    lists["cifar-fs"] = specification["splits"]
    return {name: {part: tuple(names) for part, names in parts.items()} for name, parts in lists.items()}


_CLASSES = _few_shot_classes()
_CLOTHES = (
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
)  # fmt: skip
_SETS = (
    CatalogEntry(
        "mnist",
        "ylecun/mnist",
        {"train": 60_000, "test": 10_000},
        10,
        "no formal license, cite LeCun et al. 1998",
        "L",
        names=tuple("0123456789"),
        idx=True,
        size=28,
    ),
    CatalogEntry(
        "fashion-mnist",
        "zalando-datasets/fashion_mnist",
        {"train": 60_000, "test": 10_000},
        10,
        "MIT; Debian's package dataset-fashion-mnist has it too; cite Xiao et al. 2017",
        "L",
        respell={"T - shirt / top": "T-shirt/top"},
        names=_CLOTHES,
        idx=True,
        size=28,
    ),
    CatalogEntry(
        "cifar10",
        "uoft-cs/cifar10",
        {"train": 50_000, "test": 10_000},
        10,
        "no formal license, cite Krizhevsky 2009; www.cs.toronto.edu/~kriz/cifar.html",
        names=("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"),
        size=32,
    ),
    CatalogEntry(
        "cifar100",
        "uoft-cs/cifar100",
        {"train": 50_000, "test": 10_000},
        100,
        "no formal license, cite Krizhevsky 2009; www.cs.toronto.edu/~kriz/cifar.html",
        other_columns=("coarse_label",),
        respell={"cra": "crab"},
        size=32,
    ),
    CatalogEntry(
        "pacs",
        "flwrlabs/pacs",
        {"train": 9_991},
        7,
        "no formal license, research; cite Li et al. 2017",
        other_columns=("domain",),
    ),
    CatalogEntry(
        "omniglot",
        "",
        {"train": 32_460},
        1_623,
        "MIT; github.com/brendenlake/omniglot",
        "L",
        other_columns=("alphabet", "character"),
    ),
    CatalogEntry(
        "imagenet",
        "ILSVRC/imagenet-1k",
        {"train": 1_281_167, "validation": 50_000},
        1_000,
        "non-commercial research; accept the terms on the Hub or at image-net.org",
    ),
    CatalogEntry(
        "cifar-fs",
        "uoft-cs/cifar100",
        {"train": 38_400, "val": 9_600, "test": 12_000},
        100,
        "made of CIFAR-100; cite Bertinetto et al. 2019",
        lists=_CLASSES["cifar-fs"],
        per_class=600,
        size=32,
        made_of="cifar100",
    ),
    CatalogEntry(
        "mini-imagenet",
        "",
        {"train": 38_400, "val": 9_600, "test": 12_000},
        100,
        "non-commercial research, as ImageNet; cite Ravi and Larochelle 2017; Zenodo record 7978538, or the Hub's "
        "GATE-engine/mini_imagenet, but not timm/mini-imagenet, which is another data set",
        lists=_CLASSES["mini-imagenet"],
        per_class=600,
        size=84,
    ),
    CatalogEntry(
        "tiered-imagenet",
        "",
        {"train": 448_695, "val": 124_261, "test": 206_209},
        608,
        "non-commercial research, as ImageNet; cite Ren et al. 2018; Zenodo record 7978538",
        lists=_CLASSES["tiered-imagenet"],
        size=84,
    ),
)
CATALOG: dict[str, CatalogEntry] = {known.name: known for known in _SETS}
