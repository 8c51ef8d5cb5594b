"""Folders of pictures with odd names, links, kinds and depths."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from ._data_case import DataCase, Expect
from ._pictures import domain_folder, picture

COUNT = 2 * 3 * 4  # pictures of the plain folder
Change = Callable[[Path], object]


def _plain(change: Change, more: int = 0) -> Callable[[Path], object]:
    """The plain folder, changed; by how many pictures it grows."""

    def make(folder: Path) -> object:
        domain_folder(folder, each=4)
        change(folder)
        return COUNT + more

    return make


def _rename(name: str | bytes) -> Change:
    """Another name of the last class, in both domains."""

    def change(folder: Path) -> None:
        for domain in ("a", "b"):
            place = os.fsencode(folder / domain)
            os.rename(os.path.join(place, b"class-2"), os.path.join(place, os.fsencode(name)))

    return change


def _picture(name: str | bytes) -> Change:
    """Another name of one picture."""

    def change(folder: Path) -> None:
        place = os.fsencode(folder / "a" / "class-1")
        os.rename(os.path.join(place, b"3.png"), os.path.join(place, os.fsencode(name)))

    return change


def _content(put: Callable[[Path], object]) -> Change:
    """Something else in place of one picture."""

    def change(folder: Path) -> None:
        file = folder / "a" / "class-1" / "3.png"
        file.unlink()
        put(file)

    return change


NAMES: tuple[str | bytes, ...] = (
    "class 2", "-class", "--help", "класс", "猫", "class\n2", "class\t2", "'class'", 'cl"ass', "class;2", "$HOME",
    "%s%n", "{}", "CON", "z" * 200, "class-2.png", "e\u0301", "\u00e9", "\u202eclass", b"cl\xff\xfess", b"\xed\xa0\x80",
)  # fmt: skip


def picture_cases() -> Iterator[DataCase]:
    """All of them."""
    for name in NAMES:
        yield DataCase(f"a class called {name!r}"[:60], "domains", _plain(_rename(name)), "right")
    yield DataCase("a hidden class", "domains", _plain(_rename(".class-2")), "right")
    for name, make, expect in (*_picture_names(), *_contents(), *_layouts()):
        yield DataCase(name, "domains", make, expect)


def _picture_names() -> Iterator[tuple[str, Change, Expect]]:
    for name in ("3.PNG", "3.PnG", "3 3.png", "кот.png", "3.jpg", "-3.png", "3.\n.png"):
        yield f"a picture called {name!r}", _plain(_picture(name)), "right"
    yield "a picture with bytes in its name", _plain(_picture(b"\xff\xfe.png")), "right"
    yield "a picture without an ending", _plain(_picture("3"), -1), "right"
    yield "a picture with the ending of a text", _plain(_picture("3.txt"), -1), "right"
    yield "a hidden picture", _plain(_picture(".3.png"), -1), "right"


def _contents() -> Iterator[tuple[str, Change, Expect]]:
    yield "an empty picture", _plain(_content(lambda file: file.touch())), "refused"
    yield "text as a picture", _plain(_content(lambda file: file.write_text("a cat"))), "refused"
    yield "half a picture", _plain(_content(_half)), "refused"
    yield "a picture of one pixel", _plain(_content(lambda file: picture(1, 1).save(file))), "right"
    yield "a wide picture", _plain(_content(lambda file: picture(1, 64).resize((300, 2)).save(file))), "right"
    yield "a gray picture", _plain(_content(lambda file: picture(1, mode="L").save(file))), "right"
    yield "a picture with a palette", _plain(_content(lambda file: picture(1).convert("P").save(file))), "right"
    yield "a transparent picture", _plain(_content(lambda file: picture(1).convert("RGBA").save(file))), "right"
    yield "a GIF called png", _plain(_content(lambda file: picture(1).save(file, "GIF"))), "right"
    yield "a JPEG called png", _plain(_content(lambda file: picture(1).save(file, "JPEG"))), "right"
    yield "a PPM called png", _plain(_content(lambda file: picture(1).save(file, "PPM"))), "refused"
    yield "an EPS called png", _plain(_content(lambda file: picture(1).save(file, "EPS"))), "refused"
    yield "a PDF called png", _plain(_content(lambda file: picture(1).save(file, "PDF"))), "refused"
    yield "a folder called png", _plain(_content(lambda file: file.mkdir())), "refused"
    yield "a pipe called png", _plain(_content(os.mkfifo)), "refused"
    yield "a link to itself", _plain(_content(lambda file: file.symlink_to(file.name))), "refused"
    yield "a link to nothing", _plain(_content(lambda file: file.symlink_to("nothing.png"))), "refused"
    yield "a link to an endless file", _plain(_content(lambda file: file.symlink_to("/dev/zero"))), "refused"
    yield "a link to another picture", _plain(_content(lambda file: file.symlink_to("0.png"))), "right"
    yield "a link outside", _plain(_content(_outside)), "any"


def _half(file: Path) -> None:
    picture(1).save(file)
    file.write_bytes(file.read_bytes()[:400])


def _outside(file: Path) -> None:
    elsewhere = file.parents[3] / "elsewhere.png"
    picture(1).save(elsewhere)
    file.symlink_to(elsewhere)


def _layouts() -> Iterator[tuple[str, Change, Expect]]:
    for extra in (".DS_Store", "Thumbs.db", "README.md", "labels.csv"):
        yield (
            f"a file {extra} beside the pictures",
            _plain(lambda f, extra=extra: (f / "a" / "class-0" / extra).write_text("x")),
            "same",
        )
    yield "a file beside the domains", _plain(lambda f: (f / "LICENSE.txt").write_text("free")), "same"
    yield "a picture beside the domains", _plain(lambda f: picture(1).save(f / "logo.png")), "refused"
    yield "a picture beside the classes", _plain(lambda f: picture(1).save(f / "a" / "logo.png")), "refused"
    yield (
        "a class without pictures",
        _plain(lambda f: shutil.rmtree(f / "a" / "class-2") or (f / "a" / "class-2").mkdir(), -4),
        "right",
    )
    yield "a class in one domain alone", _plain(lambda f: shutil.rmtree(f / "a" / "class-2"), -4), "right"
    yield "a class that only the tested domain lacks", _plain(lambda f: shutil.rmtree(f / "b" / "class-2"), -4), "right"
    yield (
        "a class of one picture",
        _plain(lambda f: [(f / "a" / "class-2" / f"{n}.png").unlink() for n in (1, 2, 3)], -3),
        "right",
    )
    yield "four classes", _plain(lambda f: shutil.copytree(f / "a" / "class-0", f / "a" / "class-3")), "refused"
    yield "one domain", _plain(lambda f: shutil.rmtree(f / "a")), "refused"
    yield "no tested domain", _plain(lambda f: (f / "b").rename(f / "c")), "refused"
    yield "a domain without pictures", _plain(lambda f: (f / "c").mkdir()), "same"
    yield (
        "a domain of one picture",
        _plain(
            lambda f: (f / "c" / "class-0").mkdir(parents=True) or picture(3).save(f / "c" / "class-0" / "0.png"), 1
        ),
        "right",
    )
    yield (
        "pictures one level deeper",
        _plain(lambda f: [(f / d).rename(f / "x" / d) for d in ("a", "b") if (f / "x").mkdir(exist_ok=True) is None]),
        "same",
    )
    yield (
        "pictures at two depths",
        _plain(lambda f: shutil.copytree(f / "a" / "class-0", f / "a" / "class-0" / "more")),
        "refused",
    )
    yield "a class that is a link", _plain(_linked_class), "right"
    yield "a class that is a link to its parent", _plain(lambda f: (f / "a" / "class-9").symlink_to("..")), "any"
    yield "an empty domain folder", lambda f: [(f / d / "class-0").mkdir(parents=True) for d in "ab"], "refused"


def _linked_class(folder: Path) -> None:
    (folder / "a" / "class-2").rename(folder.parent / "class-2")
    (folder / "a" / "class-2").symlink_to(folder.parent / "class-2")
