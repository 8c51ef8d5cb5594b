"""Pictures in class folders: `<class>/<picture>` or `<part>/<class>/<picture>`, with folders of any depth below."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from .layouts import PICTURES
from .listing import PART_NAMES, Entry, Listing, count, fingerprint_files, name_some, read_files

DEEPEST = 4  # folders with nothing but another folder in them


@dataclass
class _Remains:
    """What is in the folders beside pictures."""

    others: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    loose: list[str] = field(default_factory=list)
    empty: list[str] = field(default_factory=list)

    def notes(self) -> Iterator[str]:
        """Yield a sentence for each kind."""
        for names, noun, which in (
            (self.others, "file", " without the name of a picture"),
            (self.loose, "picture", " in no class folder"),
            (self.links, "linked folder", ""),
            (self.empty, "class folder", " without pictures"),
        ):
            if names:
                yield f"Left out: {count(len(names), noun)}{which} ({name_some(sorted(names))})."


def list_class_folders(folder: Path) -> Listing | None:
    """List the pictures of a folder of class folders; None if it has no folders with pictures."""
    base = _unwrap(folder)
    parts = _parts(base)
    remains = _Remains()
    entries, files = [], []
    for part, classes in parts.items():
        for each in classes:
            found = list(_pictures(each, folder, remains))
            files += found
            entries += [Entry(part, each.name, _inside(file, folder)) for file in found]
            remains.empty += [] if found else [_inside(each, folder)]
    if not files:
        return None
    for top in {base, *(each.parent for classes in parts.values() for each in classes)}:
        for file in _visible_files(top):
            (remains.loose if file.suffix.lower() in PICTURES else remains.others).append(_inside(file, folder))
    notes = [] if base == folder else [f"The classes are the folders in {_inside(base, folder)}."]
    return Listing(
        str(folder),
        "class folders",
        tuple(entries),
        read_files(files),
        fingerprint_files(files),
        notes=(*notes, *remains.notes()),
    )


def _unwrap(folder: Path) -> Path:
    """Go down through folders that hold nothing but one folder of folders, as archives often do."""
    for _ in range(DEEPEST):
        inside = _folders(folder)
        if len(inside) != 1 or not _folders(inside[0]) or any(_visible_files(folder)):
            break
        folder = inside[0]
    return folder


def _parts(base: Path) -> Mapping[str, Sequence[Path]]:
    """Return the class folders by part; the part is empty if there are none."""
    inside = _folders(base)
    parts: dict[str, list[Path]] = {}
    for each in inside:
        if part := PART_NAMES.get(each.name.lower()):
            parts.setdefault(part, []).extend(_folders(each))
    return parts if parts.get("train") else {"": inside}


def _pictures(folder: Path, root: Path, remains: _Remains) -> Iterator[Path]:
    """Yield the pictures below a folder, in order of their names; hidden ones are left out."""
    for place, folders, names in os.walk(folder):
        above = Path(place)
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        remains.links += [_inside(above / name, root) for name in folders if (above / name).is_symlink()]
        for name in sorted(name for name in names if not name.startswith(".")):
            if (above / name).suffix.lower() in PICTURES:
                yield above / name
            else:
                remains.others.append(_inside(above / name, root))


def _folders(folder: Path) -> list[Path]:
    return sorted(each for each in folder.iterdir() if each.is_dir() and not each.name.startswith((".", "__MACOSX")))


def _visible_files(folder: Path) -> Iterator[Path]:
    return (each for each in sorted(folder.iterdir()) if each.is_file() and not each.name.startswith("."))


def _inside(file: Path, folder: Path) -> str:
    return file.relative_to(folder).as_posix()
