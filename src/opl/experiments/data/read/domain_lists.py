"""The official lists of a data set with domains: which images of a domain are for training and for validation.

`<domain>_train*.txt` and `<domain>_crossval*.txt` have one line per image: its path, whose last three parts are domain,
class and file, optionally followed by the class id, which is ignored because the path contains the class.
"""

from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ....errors import DataError
from ...files import read_limited

if TYPE_CHECKING:
    from .cache import DecodedData

KINDS = ("train", "crossval")
MOST_BYTES = 1 << 28  # of a list


def read_lists(
    folder: str, domain: str, decoded: "DecodedData", sizes: tuple[int, int] | None
) -> tuple[Tensor, Tensor]:
    """Return the training rows and the validation rows of a domain, both in ascending order.

    Args:
        folder: folder of the lists.
        domain: the domain whose lists are read.
        decoded: the data set, which must contain the names of its files.
        sizes: the required lengths of the two lists; None allows any.

    Raises:
        DataError: a list is missing, or does not match the data set.
    """
    if "file" not in decoded.names:
        raise DataError(
            f"the data in {decoded.source!r} does not tell the names of its files, which the lists in {folder!r} go "
            "by: leave lists empty for a split by chance, or give the folder of the pictures with --data.root."
        )
    place = {name: number for number, name in enumerate(decoded.names["file"])}
    row_of = torch.empty(len(place), dtype=torch.long)
    row_of[decoded.parts["train"].labels["file"]] = torch.arange(len(decoded.parts["train"].labels["file"]))
    found: list[list[str]] = []
    for kind, size in zip(KINDS, sizes or (None, None), strict=True):
        file = _file(folder, domain, kind)
        names = _names(file)
        if strange := [name for name in names if name not in place or not name.startswith(f"{domain}/")]:
            raise DataError(
                f"{file.name} in {folder!r} names {strange[0]!r}, which is no picture of {domain!r} in "
                f"{decoded.source!r}: check that lists and data are of the same data set."
            )
        if len(set(names)) != (size or len(names)):
            raise DataError(
                f"{file.name} in {folder!r} names {len(set(names))} different images instead of "
                f"{size or len(names)}: get the complete list."
            )
        found.append(names)
    if both := set(found[0]) & set(found[1]):
        raise DataError(
            f"the lists of {domain!r} in {folder!r} name {min(both)!r} to train on and to validate on: get lists that "
            "have it once."
        )
    fit, val = (row_of[torch.tensor([place[name] for name in names], dtype=torch.long)] for names in found)
    return fit.sort().values, val.sort().values


def _file(folder: str, domain: str, kind: str) -> Path:
    files = sorted(Path(folder).expanduser().glob(f"{domain}_{kind}*.txt"))
    if not files:
        raise DataError(
            f"there is no list '{domain}_{kind}*.txt' in {folder!r}: give the folder of the official lists, or leave "
            "lists empty for a split by chance."
        )
    return files[0]


def _names(file: Path) -> list[str]:
    """Return `<domain>/<class>/<file>` for every line, without a trailing class id."""
    try:
        lines = [line.strip() for line in read_limited(file, MOST_BYTES).decode().splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"the list {str(file)!r} cannot be read ({error}): get the complete list.") from error
    paths = [head if tail.isdigit() else line for line in lines for head, _, tail in [line.rpartition(" ")]]
    return ["/".join(Path(path.strip()).parts[-3:]) for path in paths]
