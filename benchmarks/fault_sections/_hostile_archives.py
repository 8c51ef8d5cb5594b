"""Hostile pickles, archives and folders, read as few-shot data, idx files and pictures."""

import gzip
import io
import json
import os
import pickle
import struct
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ._hostile_case import SECRET, Case, Touch, new_place, ran, train
from ._hostile_tables import MNIST, eps, png

MINI, TIERED, CIFAR = (train(f"{name}-rfs") for name in ("mini-imagenet", "tiered-imagenet", "cifar-fs"))
DOMAINS = train("domains-erm", "--data.num-classes", "2", "--data.target", "a", "--data.size", "32", "--weights", "")


def _pickles(names: str, content: Callable[[Path], bytes]) -> Callable[[Path], Path]:
    def make(scratch: Path) -> Path:
        place = new_place(scratch)
        for part in ("train", "val", "test"):
            (place / names.format(part)).write_bytes(content(scratch))
        return place

    return make


def _evil(protocol: int) -> Callable[[Path], bytes]:
    return lambda scratch: pickle.dumps({"data": Touch(scratch), "labels": [], "image_data": 0}, protocol)


def _opcode_calls(scratch: Path) -> bytes:
    """The same by the old instruction that needs no call on the stack."""
    return f"(S'touch {scratch / 'canary'}'\nios\nsystem\n.".encode()


def _attribute(_: Path) -> bytes:
    """Set an attribute of the function that builds arrays."""
    return b"cnumpy.core.multiarray\n_reconstruct\n}(S'__module__'\nS'x'\nub."


def _shared_lists(_: Path) -> bytes:
    value: Any = [0] * 10
    for _ in range(60):
        value = [value, value]
    return pickle.dumps({"data": np.zeros((2, 84, 84, 3), np.uint8), "labels": value}, 2)


def _shared_tuples(_: Path) -> bytes:
    """A dictionary key whose hash takes forever."""
    return b"\x80\x02}(K\x00\x85" + b"2\x86" * 64 + b"K\x01u."


def _endless_list(_: Path) -> bytes:
    value: list[Any] = []
    value.append(value)
    return pickle.dumps({"data": np.zeros((1, 84, 84, 3), np.uint8), "labels": value}, 2)


BYTES: dict[str, bytes] = {
    "announced bytes that are not there": b"\x80\x04\x8e" + struct.pack("<Q", 1 << 40) + b"x.",
    "a huge place in the memo": b"\x80\x02K\x01r" + struct.pack("<I", 0xFFFFFFF0) + b".",
    "a huge number of zero bytes": b"c__builtin__\nbytearray\n(I1000000000000\ntR.",
    "a frame of a terabyte": b"\x80\x04\x95" + struct.pack("<Q", 1 << 40) + b"K\x01.",
    "values nested 100,000 deep": b"\x80\x02" + b"]" * 100_000 + b"a" * 99_999 + b".",
    "an array of objects": pickle.dumps(np.array([len], dtype=object), 2),
    "a reference outside": b"\x80\x02U\x01xQ.",
}


def _zip_bomb(scratch: Path) -> Path:
    place = new_place(scratch)
    for part in ("train", "val", "test"):
        (place / f"{part}_labels.pkl").write_bytes(pickle.dumps({"labels": [0, 1]}, 2))
        file = place / f"{part}_images.npz"
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("images.npy", "w") as stream:
            head = {"descr": "|u1", "fortran_order": False, "shape": (100_000, 84, 84, 3)}
            np.lib.format.write_array_header_1_0(stream, head)
            for _ in range(1 << 8):
                stream.write(bytes(1 << 20))
    return place


def _object_array(scratch: Path) -> Path:
    place = new_place(scratch)
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"descr": "|O", "fortran_order": False, "shape": (1,)})
    content = stream.getvalue() + pickle.dumps([Touch(scratch)], 2)
    for part in ("train", "val", "test"):
        (place / f"{part}_labels.pkl").write_bytes(pickle.dumps({"labels": [0]}, 2))
        with zipfile.ZipFile(place / f"{part}_images.npz", "w") as archive:
            archive.writestr("images.npy", content)
            archive.writestr("../../canary", b"zip slip")
    return place


def _gzip(shape: tuple[int, int, int], zeros: int) -> Callable[[Path], Path]:
    """Idx files that announce a shape and unpack to `zeros` MB."""

    def make(scratch: Path) -> Path:
        place = new_place(scratch)
        for word in ("train", "t10k"):
            for what, sizes in (("images", shape), ("labels", shape[:1])):
                file = place / f"{word}-{what}-idx{len(sizes)}-ubyte.gz"
                with gzip.open(file, "wb", compresslevel=9) as stream:
                    stream.write(struct.pack(f">4B{len(sizes)}I", 0, 0, 8, len(sizes), *sizes))
                    for _ in range(zeros):
                        stream.write(bytes(1 << 20))
        return place

    return make


def _folder(write: Callable[[Path, Path], None]) -> Callable[[Path], Path]:
    """Pictures as `<domain>/<class>/<picture>`, with one that is made by `write(place, scratch)`."""

    def make(scratch: Path) -> Path:
        place = new_place(scratch)
        for domain in "ab":
            for label in "xy":
                (place / domain / label).mkdir(parents=True)
                (place / domain / label / "1.png").write_bytes(png(9, 32))
        write(place / "a/x/2.png", scratch)
        return place

    return make


def _saved(filename: str) -> Callable[[Path], Path]:
    """A data set of `save_to_disk` whose list of files leads elsewhere."""

    def make(scratch: Path) -> Path:
        place = new_place(scratch)
        (place / "dataset_dict.json").write_text(json.dumps({"splits": ["train", "test"]}))
        for split in ("train", "test"):
            (place / split).mkdir()
            (place / split / "dataset_info.json").write_text("{}")
            state = {"_data_files": [{"filename": filename}], "_fingerprint": "x", "_split": split}
            (place / split / "state.json").write_text(json.dumps(state))
        os.mkfifo(place / "train/fifo.arrow")
        return place

    return make


def _loading_script(scratch: Path) -> Path:
    place = new_place(scratch)
    (place / "hostile.py").write_text(f"open({str(scratch / 'canary')!r}, 'w')\n")
    (place / "README.md").write_text("---\nconfigs:\n- config_name: default\n  data_files: ../secret.png\n---\n")
    (scratch / "secret.png").write_bytes(png(SECRET))
    return place


def cases() -> Iterator[Case]:
    """Every hostile archive and folder."""
    for protocol in (0, 2, 5):
        name = "miniImageNet_category_split_{}.pickle"
        files = ("train_phase_train", "val", "test")
        yield Case(f"a program as a pickle of protocol {protocol}", _mini(name, files, _evil(protocol)), MINI, ran)
    yield Case("a program as the pickle of CIFAR-FS", _pickles("CIFAR_FS_{}.pickle", _evil(2)), CIFAR, ran)
    yield Case("a program as an indexed pickle", _pickles("mini-imagenet-cache-{}.pkl", _evil(4)), MINI, ran)
    made = {
        "a pickle with an old call": _opcode_calls,
        "a pickle that sets an attribute": _attribute,
        "a pickle of lists that expand": _shared_lists,
        "a pickle of tuples that expand": _shared_tuples,
        "a pickle of a list in itself": _endless_list,
        **{f"a pickle with {name}": (lambda _, content=content: content) for name, content in BYTES.items()},
    }
    for name, content in made.items():
        yield Case(name, _pickles("CIFAR_FS_{}.pickle", content), CIFAR, ran)
    yield Case("a zip archive that unpacks to 256 MB", _zip_bomb, TIERED, ran)
    yield Case("an archive with objects and a path outside", _object_array, TIERED, ran)
    yield Case("gzip files that unpack to 1 GB", _gzip((10, 28, 28), 1 << 8), MNIST, ran)
    yield Case("an idx file of 2^96 bytes", _gzip((0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF), 0), MNIST, ran)
    folders: dict[str, Callable[[Path, Path], None]] = {
        "EPS called PNG": lambda file, scratch: _write(file, eps(scratch)),
        "a pipe among pictures": lambda file, _: os.mkfifo(file),
        "a link to a device among pictures": lambda file, _: file.symlink_to("/dev/zero"),
        "a link to nothing among pictures": lambda file, _: file.symlink_to("nowhere"),
        "a folder called PNG": lambda file, _: file.mkdir(),
    }
    for name, write in folders.items():
        yield Case(name, _folder(write), DOMAINS, ran)
    for filename in ("../../secret.arrow", "/dev/zero", "fifo.arrow"):
        yield Case(f"save_to_disk with {filename}", _saved(filename), MNIST, ran)
    yield Case("a loading script and a README that names files", _loading_script, MNIST, ran)


def _write(file: Path, content: bytes) -> None:
    file.write_bytes(content)


def _mini(name: str, words: tuple[str, ...], content: Callable[[Path], bytes]) -> Callable[[Path], Path]:
    def make(scratch: Path) -> Path:
        place = new_place(scratch)
        for word in words:
            _write(place / name.format(word), content(scratch))
        return place

    return make
