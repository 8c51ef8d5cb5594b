"""The content of one part of a few-shot data set, and the checks that it is the required part."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import numpy as np

from ....errors import DataError
from .decode import Pixels
from .label_values import Numbers
from .layouts import PARTS
from .source import DataSource

Images = Callable[[], Iterator[list[bytes] | Pixels]]
_SYNSET = re.compile(r"n\d{8}")
_CURE = {
    "cifar-fs": "take the split of Bertinetto et al., with the numbers and names of CIFAR-100",
    "mini-imagenet": "take the split of Ravi and Larochelle (timm/mini-imagenet, for one, is another data set)",
    "tiered-imagenet": "take the split of Ren et al., complete",
}


class FilePart(NamedTuple):
    """One part of a data set, as its files describe it."""

    ids: Numbers
    """(N,): the class id of each image, in the files' own numbering."""
    names: Mapping[int, str]
    """The names of these class ids; empty if the files contain none."""
    images: Images
    others: Mapping[str, list[int]] = {}
    """Further labels, by column."""
    other_names: Mapping[str, tuple[str, ...]] = {}
    decoded: bool = True
    """Whether the images are (n, 3, H, W) pixels rather than encoded pictures."""


def check_parts(found: DataSource, sheets: Mapping[str, FilePart]) -> None:
    """Check the parts against the catalog: class names, if the files contain them, and all counts.

    Raises:
        DataError: names the first part and class that does not match.
    """
    owner: dict[object, str] = {}
    for part in PARTS:
        sheet = sheets[part]
        numbers = np.unique(sheet.ids).tolist()
        names = [sheet.names.get(number, str(number)) for number in numbers]
        if part in found.known.lists and (found.known.made_of or any(map(_SYNSET.fullmatch, names))):
            _check_names(found, part, set(names))
        _check_counts(found, part, sheet, numbers, names)
        for number in numbers:
            _check_new(found, part, owner, number, sheet.names.get(number))
    if extra := sheets.get("extra"):
        _check_extra(found, sheets["train"], extra)


def wrong_files_error(found: DataSource, what: str) -> DataError:
    """Return the error for files that are not the required data set."""
    name = found.known.name
    return DataError(f"{name} in {str(found.folder)!r} is not the few-shot data set: {what}; {_CURE[name]}.")


def _check_counts(found: DataSource, part: str, sheet: FilePart, numbers: list[int], names: list[str]) -> None:
    known, images = found.known, np.unique(sheet.ids, return_counts=True)[1].tolist()
    if len(numbers) != known.classes[part]:
        raise wrong_files_error(found, f"its part {part!r} has {len(numbers)} classes instead of {known.classes[part]}")
    if not sheet.names and (gaps := sorted({*range(numbers[0], numbers[-1])} - {*numbers})):
        raise wrong_files_error(
            found, f"its part {part!r} has labels from {numbers[0]} to {numbers[-1]}, but no {gaps[0]}"
        )
    for name, count in zip(names, images, strict=True):
        if known.per_class and count != known.per_class:
            what = f"the class {name!r} of its part {part!r} has {count} images instead of {known.per_class}"
            raise wrong_files_error(found, what)
    if len(sheet.ids) != known.images[part]:
        raise wrong_files_error(found, f"its part {part!r} has {len(sheet.ids)} images instead of {known.images[part]}")


def _check_extra(found: DataSource, train: FilePart, extra: FilePart) -> None:
    file = found.files["extra"][0].name
    if other := set(extra.ids.tolist()) - set(train.ids.tolist()):
        raise wrong_files_error(found, f"{file} has the label {min(other)}, which is no base class")
    for number, name in extra.names.items():
        if name != train.names.get(number, name):
            raise wrong_files_error(found, f"{file} calls the base class {train.names[number]!r} {name!r}")


def _check_names(found: DataSource, part: str, names: set[str]) -> None:
    lists = found.known.lists
    if foreign := sorted(names - set(lists[part])):
        owner = [other for other in lists if foreign[0] in lists[other]]
        belongs = f"belongs to {owner[0]!r}" if owner else "is none of its classes"
        raise wrong_files_error(found, f"its part {part!r} has the class {foreign[0]!r}, which {belongs}")
    if missing := sorted(set(lists[part]) - names):
        raise wrong_files_error(found, f"its part {part!r} has no class {missing[0]!r}")


def _check_new(found: DataSource, part: str, owner: dict[object, str], number: int, name: str | None) -> None:
    """Check that a class is in one part only; common words, such as 'crane', may name two different classes."""
    if name is None:
        return
    key = name if _SYNSET.fullmatch(name) else (number, name)
    if key in owner:
        raise wrong_files_error(found, f"the class {name!r} is in its part {owner[key]!r} and in its part {part!r}")
    owner[key] = part
