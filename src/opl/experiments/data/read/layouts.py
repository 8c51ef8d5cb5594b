"""File names of the layouts that differ from the Hub's; no file is opened to recognize them.

Few-shot data sets are distributed as pickles and archives in several layouts, introduced by different papers. Each
layout has the parts `train` (base classes), `val` and `test` (novel classes), and some have `extra`: further images of
the base classes, which are not used for training.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from ....errors import DataError
from .catalog import CatalogEntry

PARTS = ("train", "val", "test")
PICTURES = {".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff"}
MOST_BYTES = 1 << 28  # of the file of a picture
Files = Mapping[str, tuple[Path, ...]]


class Layout(NamedTuple):
    """The reader of a layout (see `few_shot_files`), and the file names of each part."""

    reader: str
    files: Mapping[str, tuple[str, ...]]
    extra: tuple[str, ...] = ()


def _named(reader: str, *names: str, train: str = "train", extra: str = "") -> Layout:
    told = {"train": train, "val": "val", "test": "test"}
    files = {part: tuple(name.format(told[part]) for name in names) for part in PARTS}
    return Layout(reader, files, tuple(name.format(extra) for name in names) if extra else ())


LAYOUTS: dict[str, tuple[Layout, ...]] = {
    "cifar-fs": (_named("labeled", "CIFAR_FS_{}.pickle"), _named("labeled", "{}.pickle")),
    "mini-imagenet": (
        _named("labeled", "miniImageNet_category_split_{}.pickle", train="train_phase_train", extra="train_phase_val"),
        _named("indexed", "mini-imagenet-cache-{}.pkl"),
        _named("listed", "{}.csv"),
    ),
    "tiered-imagenet": (
        _named("zipped", "{}_images.npz", "{}_labels.pkl", extra="train_phase_val"),
        _named("encoded", "{}_images_png.pkl", "{}_labels.pkl"),
    ),
}


def locate(known: CatalogEntry, folder: Path) -> tuple[str, Files] | None:
    """Return the reader for a folder and the files of each part; None if the folder has none of the layouts.

    Raises:
        DataError: a layout is present, but some of its files are missing.
    """
    for base in (folder, folder / known.name):
        for layout in LAYOUTS[known.name]:
            if found := _named_files(known, base, layout):
                return layout.reader, found
        if not known.made_of and (found := _folders(known, base)):
            return "folders", found
    return None


IDX = {"train": "train", "test": "t10k"}  # names of the parts in idx files


def idx_files(known: CatalogEntry, folder: Path) -> Files | None:
    """Return the idx files of each part, images then labels, gzipped or not; None if there are none.

    Raises:
        DataError: some files are present, but not all.
    """
    for base in (folder, folder / known.name, folder / "raw"):
        found = {
            part: tuple(_idx_file(base, word, what) for what in ("images", "labels")) for part, word in IDX.items()
        }
        if any(file for files in found.values() for file in files):
            whole = {part: tuple(file for file in files if file) for part, files in found.items()}
            for part, files in found.items():
                if missing := [what for what, file in zip(("images", "labels"), files, strict=True) if not file]:
                    raise _incomplete(known, base, f"{IDX[part]}-{missing[0]}-idx{_DIMENSIONS[missing[0]]}-ubyte.gz")
            return whole
    return None


_DIMENSIONS = {"images": 3, "labels": 1}


def _idx_file(base: Path, word: str, what: str) -> Path | None:
    names = (f"{word}-{what}{joint}idx{_DIMENSIONS[what]}-ubyte{end}" for joint in "-." for end in ("", ".gz"))
    return next((base / name for name in names if (base / name).is_file()), None)


def _named_files(known: CatalogEntry, base: Path, layout: Layout) -> Files | None:
    """Return the files of a layout if the first file of any part exists; the others may occur in other layouts too."""
    if not any((base / names[0]).is_file() for names in layout.files.values()):
        return None
    files = {part: tuple(base / name for name in names) for part, names in layout.files.items()}
    if missing := [file.name for part in files.values() for file in part if not file.is_file()]:
        raise _incomplete(known, base, missing[0])
    if layout.extra and all((base / name).is_file() for name in layout.extra):
        files["extra"] = tuple(base / name for name in layout.extra)
    if layout.reader == "listed":
        files["pictures"] = tuple(_pictures(base / "images"))
        if not files["pictures"]:
            raise _incomplete(known, base, "images/")
    return files


def _folders(known: CatalogEntry, base: Path) -> Files | None:
    """Return pictures in one folder per class in one folder per part; None if there are none."""
    files = {}
    for part in PARTS:
        names = (part, "validation") if part == "val" else (part,)
        tops = [base / name for name in names if (base / name).is_dir()]
        classes = sorted(each for each in tops[0].iterdir() if each.is_dir()) if tops else []
        files[part] = tuple(picture for each in classes for picture in _pictures(each))
    if not any(files.values()):
        return None
    if missing := [part for part in PARTS if not files[part]]:
        raise _incomplete(known, base, f"{missing[0]}/")
    return files


def _pictures(folder: Path) -> Iterator[Path]:
    return (file for file in regular_files(folder, deep=False) if file.suffix.lower() in PICTURES)


def regular_files(folder: Path, *, deep: bool = True, links: bool = True) -> Iterator[Path]:
    """Yield the files of a folder, and of those in it if `deep`, in order of their names; hidden ones are left out.

    Raises:
        DataError: a picture is no file (with `links`, nor a link to one), or a folder below is a link: its pictures
            would be left out.
    """
    if not folder.is_dir():
        return
    with os.scandir(folder) as found:
        entries = sorted(found, key=lambda entry: entry.name)
    for entry in entries:
        is_picture = os.path.splitext(entry.name)[1].lower() in PICTURES
        is_folder = entry.is_dir(follow_symlinks=False)
        if entry.is_file(follow_symlinks=links):
            if not entry.name.startswith("."):
                yield Path(entry.path)
        elif deep and is_folder and not (is_picture and not os.listdir(entry.path)):
            yield from regular_files(Path(entry.path), links=links)
        elif is_picture or (deep and entry.is_dir()):
            kind = "a link" if entry.is_symlink() else "an empty folder" if is_folder else "no file"
            raise DataError(f"{entry.path!r} is {kind}: put a picture or folder in its place, or remove it.")


def _incomplete(known: CatalogEntry, base: Path, missing: str) -> DataError:
    return DataError(
        f"{known.name} in {str(base)!r} has some of its files, but not {missing!r}: copy or download what is missing."
    )
