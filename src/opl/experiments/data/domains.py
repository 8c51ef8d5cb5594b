"""Data sets with domains, for training on all domains except one and testing on it: PACS, or any other.

Like the other data sets, they are frozen values that load as `Splits`. `train` and `val` contain images of all domains
except `target`, `test` contains images of `target`, and each part stores the domain of every image. With the target
`all`, no domain is excluded: the images that are held out of every domain are the test set, and `val` is empty.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor

from ..._ranges import (
    CountOrZero,
    Fraction,
    FractionBelowOne,
    Name,
    Pixels,
    PositiveFraction,
    SeedOrOfRun,
)
from ...errors import DataError, OptionError, did_you_mean
from ..files import read_limited
from ..seeds import Purpose
from ..types import Augmentation, DataSet, Images, Splits, derived
from .augment import ColorJitter, Flip, Grayscale, RandomResizedCrop, enabled
from .read.catalog import CATALOG, CatalogEntry
from .split import split, subset

if TYPE_CHECKING:
    from .read.serve import DecodedData

LIST_KINDS = ("train", "crossval")
MOST_LIST_BYTES = 1 << 28
ALL = "all"
"""As a target: all domains together."""
PACS = {  # official numbers of training and validation images in each domain
    "art_painting": (1840, 208),
    "cartoon": (2107, 237),
    "photo": (1499, 171),
    "sketch": (3531, 398),
}


@dataclass(frozen=True)
class DomainDataSet(DataSet):
    """Base class of data sets with domains; the augmentation follows RSC's released code."""

    root: str = ""
    """Its folder: Parquet files, or '<domain>/<class>/<image>'; if empty, $OPL_DATA and then the Hub are searched."""
    target: str = ""
    """The domain that is excluded from training and validation and used for testing; `all` excludes none."""
    size: Pixels = 222
    """Height and width of the images; they are resized once, when they are cached."""
    lists: str = ""
    """Folder of '<domain>_train*.txt' and '<domain>_crossval*.txt' to split by; if empty, the split is random."""
    split_seed: SeedOrOfRun = 0
    """Random seed of the validation set and of selected images, equal for all runs; -1 uses the run's seed."""
    per_class: CountOrZero = 0
    """Maximum number of training images per class and domain (with the target `all`, per class); 0 uses all."""
    train_images: CountOrZero = 0
    """Maximum number of training images of all domains together, drawn at random; 0 uses all."""
    test_images: CountOrZero = 0
    """Maximum number of test images, drawn at random; 0 uses all."""
    balance_domains: bool = False
    """Draw the same number of images of each domain into every batch, instead of drawing from all domains together."""
    mirror_batches: bool = False
    """Train on every batch together with its mirror images, which doubles the batch size."""
    crop: PositiveFraction = 0.8
    """The smallest fraction of an image's area that a random crop takes; 1 disables cropping."""
    flip: Fraction = 0.5
    """Probability of a horizontal flip."""
    jitter: Fraction = 0.4
    """Strength of brightness, contrast, saturation and hue jitter; 0 disables it."""
    gray: Fraction = 0.1
    """Probability of conversion to grayscale."""

    channels: ClassVar[int] = 3
    mean: ClassVar[tuple[float, ...]] = (0.485, 0.456, 0.406)
    std: ClassVar[tuple[float, ...]] = (0.229, 0.224, 0.225)

    augment = derived(lambda data: augmentation(data.size, data.crop, data.flip, data.jitter, data.gray))

    def load(self, seed: int) -> Splits:
        """Read the data set (decoded on first use) and split it; `seed` is used if `split_seed` is -1."""
        decoded = self._read()
        part = decoded.parts["train"]
        labels, domains = part.labels, part.others["domain"]
        names, classes = decoded.names["domain"], decoded.class_names
        self._check(names, domains, classes, decoded.source)
        check_target(self.target, (*names, ALL))
        seed = seed if self.split_seed == -1 else self.split_seed
        train_parts, held_parts = [], []
        for number, name in enumerate(names):
            if name != self.target:
                rows = (domains == number).nonzero().flatten()
                domain_seed = Purpose.DOMAIN_SPLIT.seed(seed, number)
                if self.lists:
                    fit, held = read_lists(self.lists, name, decoded, self.official.get(name))
                else:
                    parts = split(labels[rows], self._val_count(name, len(rows)), seed=domain_seed, stratified=True)
                    fit, held = (rows[part] for part in parts)
                most = 0 if self.target == ALL else self.per_class
                train_parts.append(fit[subset(labels[fit], per_class=most, seed=domain_seed)])
                held_parts.append(held)
        fit, held = torch.cat(train_parts), torch.cat(held_parts)
        if self.target == ALL:
            test, held = held, held[:0]
            fit = fit[subset(labels[fit], per_class=self.per_class, seed=Purpose.DOMAIN_SPLIT.seed(seed, len(names)))]
        else:
            test = (domains == names.index(self.target)).nonzero().flatten()
        fit, test = (
            _draw(rows, most, Purpose.DOMAIN_SPLIT.seed(seed, len(names), number))
            for number, (rows, most) in enumerate(((fit, self.train_images), (test, self.test_images)))
        )
        train, val, test_part = (Images(part.pixels, labels, rows, domains) for rows in (fit, held, test))
        return Splits(train, val, test_part, classes, decoded.source, domain_names=names)

    def _read(self) -> "DecodedData":
        from .read import find, serve

        self.check()
        files = find.find_entry(replace(self._known(), size=self.size), self.root)
        return serve.load_files(replace(files, layout=serve.DOMAINS), ("train",))

    def _known(self) -> CatalogEntry:
        return CATALOG[self.name]

    official: ClassVar[dict[str, tuple[int, int]]] = {}
    """The required numbers of training and validation images per domain, if they are fixed."""

    def _val_count(self, domain: str, count: int) -> int:
        """Return the number of validation images of a domain."""
        return self.official[domain][1]

    def _check(self, names: tuple[str, ...], domains: Tensor, classes: tuple[str, ...], source: str) -> None:
        """Raise an error if the data is not the requested data set."""
        raise NotImplementedError(f"{type(self).__name__} has no _check: define it in the class.")


@dataclass(frozen=True)
class Pacs(DomainDataSet):
    """PACS: 9,991 images of 7 classes: 2,048 art paintings, 2,344 cartoons, 1,670 photos, 3,929 sketches.

    The official training and validation lists contain file names, so they need a copy of PACS with file names: images
    in folders, or Parquet files that include the names. Without `lists`, the official number of images of each domain
    is held out, the same fraction of every class.
    """

    target: str = "photo"
    """The domain that is excluded from training and validation and used for testing."""

    name: ClassVar[str] = "pacs"
    num_classes: ClassVar[int] = 7

    def check(self) -> None:
        """Also raise an error for an unknown target."""
        super().check()
        check_target(self.target, (*PACS, ALL))

    official = derived(lambda _: PACS)

    def _check(self, names: tuple[str, ...], domains: Tensor, classes: tuple[str, ...], source: str) -> None:
        counts = dict(zip(names, domains.bincount(minlength=len(names)).tolist(), strict=True))
        for domain, sizes in PACS.items():
            if counts.get(domain, 0) != sum(sizes):
                raise DataError(
                    f"pacs in {source!r} has {counts.get(domain, 0)} images of {domain!r} instead of {sum(sizes)}: get "
                    "the complete data set, or read it as DomainFolder, which has no official sizes."
                )
        if len(names) > len(PACS) or len(classes) != self.num_classes:
            raise DataError(
                f"pacs in {source!r} has {len(names)} domains and {len(classes)} classes instead of 4 and 7: use "
                "a folder with only PACS, or read it as DomainFolder."
            )


@dataclass(frozen=True)
class DomainFolder(DomainDataSet):
    """Any data set with domains: VLCS, Office-Home, DomainNet, or your own.

    It is read from images as `<domain>/<class>/<image>`, or from Parquet files (local or from the Hub) with columns
    for images, labels and domains. Domains and classes are numbered in alphabetical order, unless the files number the
    classes.

    Example:
        >>> home = DomainFolder(root="OfficeHome", target="Clipart", num_classes=65)
        >>> home.augment[0]
        RandomResizedCrop(size=222, least=0.8)
    """

    name: Name = "domains"
    """The name of the data set, and of its folder in $OPL_DATA."""
    hub: str = ""
    """The id of the data set on the Hub; empty if it has none."""
    column: str = "domain"
    """The domain column in Parquet files."""
    num_classes: CountOrZero = 0
    """Number of classes, so that a model can be built before the data is read."""
    val: FractionBelowOne = 0.1
    """Fraction of each domain held out for validation, the same for every class."""

    def check(self) -> None:
        """Also raise an error if the number of classes is not set."""
        super().check()
        if self.num_classes < 2:
            raise OptionError(f"num_classes is {self.num_classes}: must be the number of classes, at least 2.")

    def _known(self) -> CatalogEntry:
        return CatalogEntry(self.name, self.hub, {"train": 0}, self.num_classes, other_columns=(self.column,))

    def _val_count(self, domain: str, count: int) -> int:
        return round(self.val * count)

    def _check(self, names: tuple[str, ...], domains: Tensor, classes: tuple[str, ...], source: str) -> None:
        if len(classes) != self.num_classes:
            raise DataError(
                f"{self.name} in {source!r} has {len(classes)} classes instead of {self.num_classes}: set num_classes "
                f"to {len(classes)}, or check that every domain has a folder for each class."
            )
        if len(names) < 2:
            raise DataError(
                f"{self.name} in {source!r} has only one domain, {names[0]!r}, so that none is left for training: "
                "choose a folder with two domains or more."
            )


def check_target(target: str, domains: Sequence[str]) -> None:
    """Raise an error if the target is not one of the domains."""
    if target not in domains:
        raise OptionError(did_you_mean("domain", target, domains))


def _draw(rows: Tensor, most: int, seed: int) -> Tensor:
    """Return at most `most` of the rows, in ascending order; 0 returns all."""
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(seed))
    return rows[order[:most].sort().values] if most else rows


def augmentation(size: int, crop: float, flip: float, jitter: float, gray: float) -> tuple[Augmentation, ...]:
    """Return crop, flip, jitter and grayscale, in the order of RSC's released code; each can be disabled."""
    steps = enabled(Flip(flip), ColorJitter(jitter, jitter, jitter, min(0.5, jitter)), Grayscale(gray))
    return (RandomResizedCrop(size, crop), *steps) if crop < 1 else steps


# Official lists


def read_lists(
    folder: str, domain: str, decoded: "DecodedData", sizes: tuple[int, int] | None
) -> tuple[Tensor, Tensor]:
    """Return the training rows and the validation rows of a domain, both in ascending order.

    `<domain>_train*.txt` and `<domain>_crossval*.txt` have one line per image: its path, whose last three parts are
    domain, class and file, optionally followed by the class id, which is ignored because the path contains the class.

    The data set must contain the names of its files; `sizes` are the required lengths of the two lists.

    Raises:
        DataError: a list is missing, or does not match the data set.
    """
    if "file" not in decoded.names:
        raise DataError(
            f"the data in {decoded.source!r} does not contain the names of its files, which the lists in {folder!r} "
            "refer to: leave lists empty for a random split, or pass the folder of the images with --data.root."
        )
    number = {name: index for index, name in enumerate(decoded.names["file"])}
    row_of = torch.empty(len(number), dtype=torch.long)
    row_of[decoded.parts["train"].others["file"]] = torch.arange(len(decoded.parts["train"].labels))
    listed: list[list[str]] = []
    for kind, size in zip(LIST_KINDS, sizes or (None, None), strict=True):
        file = next(iter(sorted(Path(folder).expanduser().glob(f"{domain}_{kind}*.txt"))), None)
        if file is None:
            raise DataError(
                f"there is no list '{domain}_{kind}*.txt' in {folder!r}: pass the folder of the official lists "
                "with --data.lists, or leave lists empty for a random split."
            )
        names = _names(file)
        if unknown := [name for name in names if name not in number or not name.startswith(f"{domain}/")]:
            raise DataError(
                f"{file.name} in {folder!r} names {unknown[0]!r}, which is not an image of {domain!r} in "
                f"{decoded.source!r}: check that the lists belong to the data set."
            )
        if len(set(names)) != (size or len(names)):
            raise DataError(
                f"{file.name} in {folder!r} names {len(set(names))} different images instead of "
                f"{size or len(names)}: get the complete list."
            )
        listed.append(names)
    if both := set(listed[0]) & set(listed[1]):
        raise DataError(
            f"the lists of {domain!r} in {folder!r} name {min(both)!r} for training and for validation: get the "
            "official lists."
        )
    fit, val = (row_of[torch.tensor([number[name] for name in names], dtype=torch.long)] for names in listed)
    return fit.sort().values, val.sort().values


def _names(file: Path) -> list[str]:
    """Return `<domain>/<class>/<file>` for every line, without a trailing class id."""
    try:
        lines = [line.strip() for line in read_limited(file, MOST_LIST_BYTES).decode().splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"the list {str(file)!r} cannot be read ({error}): get the complete list.") from error
    paths = [head if tail.isdigit() else line for line in lines for head, _, tail in [line.rpartition(" ")]]
    return ["/".join(Path(path.strip()).parts[-3:]) for path in paths]
