"""Where a data set is: in a named folder, in `$OPL_DATA/<name>`, or on the Hugging Face Hub, in this order.

Each is a folder of files in the Hub's layout. The few-shot data sets have further layouts (see `few_shot_files`),
and MNIST and Fashion-MNIST may be idx files (see `array_files`). No file is opened here.
"""

import os
import re
import threading
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from ....errors import DataError, did_you_mean
from .array_files import idx_files
from .catalog import CATALOG, CatalogEntry
from .few_shot_files import LAYOUTS, as_on_the_hub, locate
from .listing import DataFiles, one_line, quote_names, table_files, walk
from .parquet import PART_NAME

CONVERTED = "refs/convert/parquet"  # the branch on which the Hub keeps data sets that it has converted
PARTS = ("train", "validation", "test")  # those that exist are used if the catalog names none
PATIENCE = 4.0  # seconds without a reply after which the network counts as unavailable
_SHARD = re.compile(r"-\d{5}-of-(\d{5})")


def find(name: str, root: str = "") -> DataFiles:
    """Find a data set of the catalog in `root` (or a folder in it), or else in `$OPL_DATA/<name>` or on the Hub.

    Raises:
        DataError: the data set is not found; the message names the three ways to provide it.
    """
    if name not in CATALOG:
        raise DataError(did_you_mean("data set", name, CATALOG))
    return find_entry(CATALOG[name], root)


def find_entry(known: CatalogEntry, root: str = "") -> DataFiles:
    """Find a data set by its catalog entry instead of its name."""
    if files := find_local(known, root):
        return files
    if root:
        raise DataError(f"there is no {known.name} in --data.root {root!r}: {_ways(known)}.")
    if known.hub and not is_offline() and is_reachable():
        return _download(known)
    raise DataError(f"there is no {known.name} on this machine: {_ways(known)}.")


def find_tables(known: CatalogEntry, root: str = "") -> DataFiles:
    """Find the Parquet files of a data set; if `known` names no parts, all parts that exist."""
    files = find_entry(known, root)
    if not files.parquet:
        raise DataError(
            f"{str(files.folder)!r} has neither Parquet files nor images as '<class>/<image>' or "
            "'train/<class>/<image>': choose a folder in one of these layouts."
        )
    return files


def find_local(known: CatalogEntry, root: str = "") -> DataFiles | None:
    """Find a data set on this machine, without using the network; None if there is none.

    Raises:
        DataError: its folder exists, but does not contain the data set.
    """
    if root:
        return _in_folder(known, Path(root).expanduser())
    if base := os.environ.get("OPL_DATA"):
        for name in known.folders:
            if files := _in_folder(known, Path(base).expanduser() / name):
                return files
    return _in_hub_cache(known) if known.hub else None


def is_here(name: str) -> bool:
    """Return whether the data set `name` is on this machine; the network is not used.

    Raises:
        DataError: its folder exists, but does not contain the data set.
    """
    return find_local(CATALOG[name]) is not None


def _ways(known: CatalogEntry) -> str:
    folders = " or ".join(f"'{name}/'" for name in known.folders)
    if known.classes and not known.hub:
        return (
            f"get it ({known.license}), and set OPL_DATA to the folder that holds {folders}; opl train also takes its "
            "folder as --data.root FOLDER"
        )
    hub = f"'{known.hub}'" if known.hub else f"an id of your choice, into a folder ({known.license})"
    return (
        f"set OPL_DATA to the folder that holds {folders} (opl train also takes its folder as --data.root FOLDER), "
        f"or let opl download it from the Hugging Face Hub ({hub}), which needs the network and HF_HUB_OFFLINE unset"
    )


# Folders


def _in_folder(known: CatalogEntry, folder: Path, where: str = "") -> DataFiles | None:
    where = where or str(folder)
    if not folder.is_dir():
        return None
    if known.idx and (idx := idx_files(known, folder)):
        return DataFiles(known, folder, idx, where, layout="idx")
    if not known.classes:
        return _in_hub_layout(known, folder, where)
    if located := locate(known, folder):
        return DataFiles(known, folder, located[1], where, layout=located[0])
    files = _in_hub_layout(as_on_the_hub(known), folder, where)
    if files and not (files.parquet or known.made_of):
        names = ", ".join(repr(layout.files[0].format("test")) for layout in LAYOUTS[known.name])
        raise DataError(
            f"{str(folder)!r} holds {known.name} in none of its layouts: choose a folder that has {names}, "
            "'test/<class>/<image>', or Parquet files with the splits 'train', 'validation' and 'test'."
        )
    return replace(files, known=known, layout="hub") if files else None


def _in_hub_layout(known: CatalogEntry, folder: Path, where: str) -> DataFiles | None:
    layouts = _parquet_layouts(folder)
    bases = [base for base in layouts if {*(known.images or PARTS[:1])} <= layouts[base].keys()]
    usual = [folder, folder / known.name, folder / known.hub.partition("/")[2], folder / "data", folder / "default"]
    chosen = next((base for base in usual if base in bases), bases[0] if len(bases) == 1 else None)
    if chosen is not None:
        known = replace(known, images=known.images or {part: 0 for part in PARTS if part in layouts[chosen]})
        files = {part: tuple(layouts[chosen][part]) for part in known.images}
        _check_shards(known, folder, files)
        return DataFiles(known, folder, files, where)
    if layouts:
        splits = sorted({part for parts in layouts.values() for part in parts})
        raise DataError(
            f"{str(folder)!r} has no single set of Parquet files with the splits "
            f"{quote_names(known.images or PARTS[:1])} of {known.name} (its splits: {quote_names(splits)}): "
            "choose the folder of one complete data set."
        )
    all_files = tuple(walk(folder))
    return DataFiles(known, folder, {"": all_files}, where) if all_files else None


def _parquet_layouts(folder: Path) -> dict[Path, dict[str, list[Path]]]:
    """Return Parquet files up to two subfolders deep, by the folder of their configuration and by part."""
    layouts: dict[Path, dict[str, list[Path]]] = {}
    for file in table_files(folder, ".parquet"):
        inside = PART_NAME.search(file.stem)
        above = None if inside or file.parent == folder else PART_NAME.search(file.parent.name)
        base = file.parent.parent if above else file.parent
        part = (inside or above or [None, "train"])[1]  # as in `datasets`: unnamed files are for training
        layouts.setdefault(base, {}).setdefault(str(part), []).append(file)
    return layouts


def _check_shards(known: CatalogEntry, folder: Path, files: Mapping[str, tuple[Path, ...]]) -> None:
    for part, shards in files.items():
        for shard in filter(None, (_SHARD.search(file.stem) for file in shards)):
            if int(shard[1]) != len(shards):
                raise DataError(
                    f"{known.name} in {str(folder)!r} has {len(shards)} of the {int(shard[1])} files of its split "
                    f"{part!r}: copy or download the missing files."
                )


# The Hub


def hub_folder() -> Path:
    """Return the folder of downloads, as defined by `huggingface_hub`."""
    home = os.environ.get("HF_HOME") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "huggingface"
    return Path(os.environ.get("HF_HUB_CACHE") or Path(home) / "hub").expanduser()


def is_offline() -> bool:
    """Return whether the environment requests offline mode."""
    names = ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE")
    return any(os.environ.get(name, "").upper() in {"1", "ON", "YES", "TRUE"} for name in names)


def is_reachable() -> bool:
    """Return whether the Hub replies; a thread asks it, because a name server that never replies ignores timeouts."""
    replies: list[bool] = []

    def ask() -> None:
        endpoint = os.environ.get("HF_ENDPOINT", "https://huggingface.co")
        try:
            urllib.request.urlopen(urllib.request.Request(endpoint, method="HEAD"), timeout=PATIENCE).close()
            replies.append(True)
        except urllib.error.HTTPError as error:
            replies.append(error.code < 500)
        except (OSError, ValueError):
            replies.append(False)

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    return bool(replies and replies[0])


def _in_hub_cache(known: CatalogEntry) -> DataFiles | None:
    """Find an earlier download without importing anything; incomplete downloads are ignored."""
    snapshots = hub_folder() / f"datasets--{known.hub.replace('/', '--')}" / "snapshots"
    for folder in sorted(snapshots.glob("*"), key=lambda f: f.stat().st_mtime, reverse=True):
        try:
            files = _in_folder(known, folder, f"Hub {known.hub}")
        except DataError:
            continue
        if files and files.parquet:
            return files
    return None


def _download(known: CatalogEntry) -> DataFiles:
    try:
        from huggingface_hub import snapshot_download
    except ImportError as error:
        raise DataError(
            f"downloading {known.name} from the Hub's {known.hub!r} needs huggingface_hub: install "
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
        if files := _in_folder(known, Path(folder), f"Hub {known.hub}"):
            return files
    raise DataError(f"the Hub's {known.hub!r} has no Parquet files in the layout of {known.name}: {_ways(known)}.")
