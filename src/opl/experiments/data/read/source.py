"""Where a data set comes from: a given folder, `$OPL_DATA/<name>`, or the Hugging Face Hub, in this order.

All three give a folder of files in the Hub's layout, so that one reader serves them. Parquet files are read directly;
pictures in folders and what `save_to_disk` wrote are read through `datasets`. The few-shot data sets have further
layouts (see `layouts` and `few_shot_files`), and MNIST and Fashion-MNIST may be idx files (see `idx`).
"""

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ....errors import DataError, did_you_mean
from . import hub
from .catalog import CATALOG, CatalogEntry
from .contents import content_sums
from .layouts import LAYOUTS, idx_files, locate, regular_files

if TYPE_CHECKING:
    from .decode import Pixels

SPLIT_WORD = re.compile(r"(?:^|[-_.])(train|test|validation)(?:$|[-_.])")
DOMAINS = "domains"  # the layout of a data set with domains, in any file format: see `domain_files`
HUB_SPLITS = {"train": "train", "val": "validation", "test": "test"}  # names of the parts on the Hub
CONVERTED = "refs/convert/parquet"  # the branch on which the Hub keeps data sets that it has converted
_SHARD = re.compile(r"-(\d{5})-of-(\d{5})")


@dataclass(frozen=True)
class DataSource:
    """A data set on this machine: `files` by split if they are Parquet, otherwise all files of the folder under ''."""

    known: CatalogEntry
    folder: Path
    files: Mapping[str, tuple[Path, ...]]
    where: str
    """For messages: the folder, or the Hub id."""
    layout: str = ""
    """The reader of the files if they are not plain ones: `idx`, `DOMAINS`, or a reader of `few_shot_files`."""
    bgr: bool = False
    """Whether the arrays in the files are BGR."""

    @property
    def parquet(self) -> bool:
        """Whether the files can be read directly."""
        return "" not in self.files

    def fingerprint(self, version: int, cache: Path) -> str:
        """Return a hash of `version` and of the names and contents of all files; `cache` keeps that of each file."""
        facts: list[object] = [version, self.known.mode]
        for split in sorted(self.files):
            facts += [(split, *each) for each in content_sums(self.folder, self.files[split], cache)]
        if self.bgr:
            facts.append("bgr")
        if self.layout == DOMAINS:
            facts.append((DOMAINS, self.known.size, self.known.other_columns))
        return hashlib.blake2b(json.dumps(facts).encode(), digest_size=8).hexdigest()

    def count(self) -> int | None:
        """Return the number of images from the files' metadata; None if the files would have to be read."""
        if not self.parquet or self.layout:
            return None
        import pyarrow.parquet as pq

        files = [file for split in self.known.images for file in self.files[split]]
        try:
            return sum(int(pq.read_metadata(file).num_rows) for file in files)
        except Exception:  # pyarrow raises many kinds of errors for damaged files
            return None


@dataclass(frozen=True)
class SourceReader:
    """An opened data set: its metadata, and functions that read its labels and images by split."""

    label_columns: tuple[str, ...]
    """The class column first, then the other label columns."""
    names: Mapping[str, tuple[str, ...]]
    """Value names by label column, if the schema contains them."""
    counts: Mapping[str, int]
    labels: Callable[[str], Mapping[str, list[Any]]]
    """Returns all labels of a split by column, without reading its images."""
    images: "Callable[[str], Iterator[list[bytes] | Pixels]]"
    """Yields the images of a split in the same order, in batches: encoded, or as pixels if `decoded`."""
    decoded: bool = False

    @property
    def large(self) -> bool:
        """Whether the data set is large enough to justify starting several processes."""
        return sum(self.counts.values()) > 5000


def unreadable_error(found: DataSource, error: Exception) -> DataError:
    """Return the error for a folder whose content is not as expected."""
    layout = "one of its layouts" if found.layout else "the Hugging Face layout"
    return DataError(
        f"{found.known.name} in {str(found.folder)!r} cannot be read ({type(error).__name__}: {one_line(error)}): "
        f"check that its files are complete and in {layout}."
    )


def find(name: str, root: str = "") -> DataSource:
    """Find the data set `name` in `root` if given, otherwise in `$OPL_DATA/<name>`, otherwise on the Hub.

    Args:
        name: a key of `CATALOG`.
        root: the data set's folder (or its parent); if given, no other place is searched.

    Raises:
        DataError: the data set is not found; the message names the three ways to provide it.
    """
    if name not in CATALOG:
        raise DataError(did_you_mean("data set", name, CATALOG))
    return find_entry(CATALOG[name], root)


def find_entry(known: CatalogEntry, root: str = "") -> DataSource:
    """Find a data set given by its catalog entry instead of its name."""
    if found := find_local(known, root):
        return found
    if root:
        raise DataError(f"there is no {known.name} in --data.root {root!r}: {_ways(known)}.")
    if known.hub and not hub.is_offline() and hub.is_reachable():
        return _download(known)
    raise DataError(f"there is no {known.name} here: {_ways(known)}.")


def find_local(known: CatalogEntry, root: str = "") -> DataSource | None:
    """Find a data set on this machine, without using the network; None if there is none.

    Raises:
        DataError: its folder exists, but does not contain the data set.
    """
    if root:
        return _in_folder(known, Path(root).expanduser())
    if shelf := os.environ.get("OPL_DATA"):
        for name in filter(None, (known.name, known.made_of)):
            if found := _in_folder(known, Path(shelf).expanduser() / name):
                return found
    return _in_hub_cache(known) if known.hub else None


def is_here(name: str) -> bool:
    """Whether the data set `name` is on this machine; the network is not used.

    Raises:
        DataError: its folder exists, but does not contain the data set.
    """
    return find_local(CATALOG[name]) is not None


def _ways(known: CatalogEntry) -> str:
    hub = f"'{known.hub}'" if known.hub else f"an id of your choice, into a folder ({known.license})"
    folders = " or ".join(f"'{name}/'" for name in (known.name, known.made_of) if name)
    if known.classes and not known.hub:
        return (
            f"get it ({known.license}), and give its folder with --data.root FOLDER, or set OPL_DATA to the folder "
            f"that holds {folders}"
        )
    return (
        f"give its folder with --data.root FOLDER, or set OPL_DATA to the folder that holds {folders}, "
        f"or let it come from the Hugging Face Hub ({hub}), which needs the network and HF_HUB_OFFLINE unset"
    )


# Folders


def _in_folder(known: CatalogEntry, folder: Path, where: str = "") -> DataSource | None:
    where = where or str(folder)
    if not folder.is_dir():
        return None
    if known.idx and (files := idx_files(known, folder)):
        return DataSource(known, folder, files, where, layout="idx")
    return (_few_shot if known.classes else _in_hub_layout)(known, folder, where)


def _few_shot(known: CatalogEntry, folder: Path, where: str) -> DataSource | None:
    if located := locate(known, folder):
        return DataSource(known, folder, located[1], where, layout=located[0])
    found = _in_hub_layout(as_on_the_hub(known), folder, where)
    if found and not (found.parquet or known.made_of):
        there = ", ".join(repr(layout.files["test"][0]) for layout in LAYOUTS[known.name])
        raise DataError(
            f"{str(folder)!r} holds {known.name} in none of its layouts, in which there would be {there}, "
            "'test/<class>/<picture>', or Parquet files with the splits 'train', 'validation' and 'test': give the "
            "folder that has one of them."
        )
    return replace(found, known=known, layout="hub") if found else None


def as_on_the_hub(known: CatalogEntry) -> CatalogEntry:
    """Return what the Hub has for a few-shot data set: the data set it is built from, or its own parts as splits."""
    if known.made_of:
        return CATALOG[known.made_of]
    return replace(known, images={HUB_SPLITS[part]: count for part, count in known.images.items()}, classes={})


def _in_hub_layout(known: CatalogEntry, folder: Path, where: str) -> DataSource | None:
    layouts = _parquet_layouts(folder)
    bases = [base for base in layouts if known.images.keys() <= layouts[base].keys()]
    liked = [folder, folder / known.name, folder / known.hub.partition("/")[2], folder / "data", folder / "default"]
    chosen = next((base for base in liked if base in bases), bases[0] if len(bases) == 1 else None)
    if chosen is not None:
        files = {split: tuple(layouts[chosen][split]) for split in known.images}
        _all_shards(known, folder, files)
        return DataSource(known, folder, files, where)
    if layouts:
        held = sorted({split for splits in layouts.values() for split in splits})
        raise DataError(
            f"{str(folder)!r} has no single set of Parquet files with the splits {quote_names(known.images)} of "
            f"{known.name} (there are {quote_names(held)}): give the folder of one data set, complete."
        )
    files = {"": tuple(regular_files(folder))}
    return DataSource(known, folder, files, where) if files[""] else None


def _parquet_layouts(folder: Path) -> dict[Path, dict[str, list[Path]]]:
    """Return Parquet files up to two subfolders deep, by the folder of their configuration and by split."""
    layouts: dict[Path, dict[str, list[Path]]] = {}
    for pattern in ("*.parquet", "*/*.parquet", "*/*/*.parquet"):
        for file in sorted(file for file in folder.glob(pattern) if file.is_file()):
            inside = SPLIT_WORD.search(file.stem)
            above = None if inside or file.parent == folder else SPLIT_WORD.search(file.parent.name)
            base = file.parent.parent if above else file.parent
            split = (inside or above or [None, "train"])[1]  # as in `datasets`: unnamed files are for training
            layouts.setdefault(base, {}).setdefault(str(split), []).append(file)
    return layouts


def _all_shards(known: CatalogEntry, folder: Path, files: Mapping[str, tuple[Path, ...]]) -> None:
    for split, there in files.items():
        for file in there:
            shard = _SHARD.search(file.stem)
            if shard and int(shard[2]) != len(there):
                raise DataError(
                    f"{known.name} in {str(folder)!r} has {len(there)} of the {int(shard[2])} files of its split "
                    f"{split!r}: copy or download the missing ones."
                )


# The Hub


def _in_hub_cache(known: CatalogEntry) -> DataSource | None:
    """Find an earlier download without importing anything; an incomplete one is ignored."""
    snapshots = hub.cache_folder() / f"datasets--{known.hub.replace('/', '--')}" / "snapshots"
    for folder in sorted(snapshots.glob("*"), key=lambda f: f.stat().st_mtime, reverse=True):
        try:
            found = _in_folder(known, folder, f"Hub {known.hub}")
        except DataError:
            continue
        if found and found.parquet:
            return found
    return None


def _download(known: CatalogEntry) -> DataSource:
    try:
        from huggingface_hub import snapshot_download
    except ImportError as error:
        raise DataError(
            f"{known.name} comes from the Hub's {known.hub!r}, which needs huggingface_hub: install "
            "'orthogonal-projection-loss[experiments]' with pip."
        ) from error
    for revision in (None, CONVERTED):
        try:
            folder = snapshot_download(known.hub, repo_type="dataset", revision=revision, allow_patterns=["*.parquet"])
        except Exception as error:  # no network after all, terms not accepted, disk full, ...
            raise DataError(
                f"{known.name} could not be downloaded from the Hub's {known.hub!r} ({one_line(error)}): "
                f"{_ways(known)}."
            ) from error
        if found := _in_folder(known, Path(folder), f"Hub {known.hub}"):
            return found
    raise DataError(f"the Hub's {known.hub!r} has no Parquet files in the layout of {known.name}: {_ways(known)}.")


def quote_names(names: Any, joint: str = "and") -> str:
    """Return quoted names, joined for use in a message."""
    return f" {joint} ".join(repr(str(name)) for name in names) or "none"


def one_line(error: Exception) -> str:
    """Return the message of an error on one line."""
    return " ".join(str(error).split())[:200] or type(error).__name__
