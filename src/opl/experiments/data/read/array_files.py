"""Files of arrays: idx, NumPy archives, HDF5 and pickles, read without trusting what they declare."""

import gzip
import math
import mmap
import pickle
import pickletools
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ....errors import DataError
from ...files import open_regular
from .catalog import CatalogEntry
from .listing import ALL, ClassChoice, DataFiles, Listing, Pixels, class_keys, list_blocks, numbers_first, one_line

HDF5 = (".h5", ".hdf5")
IDX = {"train": "train", "test": "t10k"}  # names of the parts in idx files
MOST_IDX_BYTES = 1 << 30  # of an unpacked file; MNIST has 47 million
MOST_HDF5_BYTES = 3 << 26  # of an image
MOST_INSTRUCTIONS = 1 << 25  # of a pickle; each may take some dozens of bytes of memory
MOST_SHARED_TUPLES = 8  # uses of one tuple in several places of a pickle
DEEPEST_VALUE = 100


# idx


def idx_files(known: CatalogEntry, folder: Path) -> dict[str, tuple[Path, ...]] | None:
    """Return the idx files of each part, images then labels, gzipped or not; None if there are none.

    Raises:
        DataError: some files exist, but not all.
    """
    for base in (folder, folder / known.name, folder / "raw"):
        files: dict[str, list[Path]] = {part: [] for part in IDX}
        missing = []
        for part, prefix in IDX.items():
            for what in ("images-idx3", "labels-idx1"):
                spellings = (what, what.replace("-idx", ".idx"))
                names = [f"{prefix}-{spelling}-ubyte{end}" for spelling in spellings for end in ("", ".gz")]
                existing = [base / name for name in names if (base / name).is_file()]
                files[part] += existing[:1]
                missing += [] if existing else names[1:2]
        if any(files.values()) and missing:
            raise incomplete_error(known, base, missing[0])
        if any(files.values()):
            return {part: tuple(pair) for part, pair in files.items()}
    return None


def incomplete_error(known: CatalogEntry, base: Path, missing: str) -> DataError:
    """Return the error for a folder in which a file is missing."""
    return DataError(f"{known.name} in {str(base)!r} has no {missing!r}: copy or download the missing files.")


def list_idx(files: DataFiles) -> Listing:
    """List idx files, the original format of MNIST and Fashion-MNIST: a header of sizes, then bytes."""
    blocks: list[Any] = []
    labels: list[int] = []
    for part, (images, targets) in files.files.items():
        with _open_idx(images) as stream:
            size = _idx_shape(stream, 3)[0]
        ids = _idx_array(targets, 1)
        if len(ids) != size:
            raise ValueError(f"{size} images and {len(ids)} labels in {part!r}")
        blocks.append((part, size, lambda images=images: iter(_idx_array(images, 3))))
        labels += ids.tolist()
    return list_blocks(files.where, blocks, {"label": labels}, names={"label": files.known.names})


def _idx_array(file: Path, dimensions: int) -> Pixels:
    """Read an array, and no more than its header declares: a few bytes may unpack to any number."""
    with _open_idx(file) as stream:
        shape = _idx_shape(stream, dimensions)
        size = math.prod(shape)
        declared = " x ".join(map(str, shape))
        if size > MOST_IDX_BYTES:
            raise ValueError(f"{file.name} declares {declared}, more than {MOST_IDX_BYTES:,} bytes")
        content = stream.read(size + 1)
    if len(content) != size:
        actual = "more" if len(content) > size else len(content)
        raise ValueError(f"{file.name} holds {actual} bytes but declares {declared}")
    return np.frombuffer(content, np.uint8).reshape(shape)


def _open_idx(file: Path) -> Any:
    """Open a file, gzipped or not, as its first bytes indicate; its name may be wrong."""
    with file.open("rb") as stream:
        zipped = stream.read(2) == b"\x1f\x8b"
    return gzip.open(file) if zipped else file.open("rb")


def _idx_shape(stream: Any, dimensions: int) -> tuple[int, ...]:
    """Read the header: two zeros, 8 for uint8, the number of dimensions, then each size, all big-endian."""
    header = stream.read(4 + 4 * dimensions)
    if header[:4] != bytes([0, 0, 8, dimensions]) or len(header) < 4 + 4 * dimensions:
        raise ValueError(f"not an idx file of bytes in {dimensions} dimensions")
    return tuple(np.frombuffer(header, ">u4", dimensions, offset=4).tolist())


# NumPy archives


def npz_shape(file: Path, most: int) -> tuple[tuple[int, ...], str]:
    """Return the shape and type of `images` in a NumPy archive.

    Raises:
        ValueError: the array would unpack to more than `most` bytes, or is stored column by column.
    """
    with zipfile.ZipFile(file) as archive:
        if (size := archive.getinfo("images.npy").file_size) > most:
            raise ValueError(f"{file.name} unpacks to {size:,} bytes, more than the {most:,} of its images")
        with archive.open("images.npy") as stream:
            return _npy_header(file, stream)


def _npy_header(file: Path, stream: Any) -> tuple[tuple[int, ...], str]:
    version = np.lib.format.read_magic(stream)
    read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, fortran, dtype = read_header(stream)
    if fortran:
        raise ValueError(f"{file.name} has a transposed array")
    return shape, str(dtype)


def npz_images(file: Path, bgr: bool = False) -> Iterator[Pixels]:
    """Yield the (H, W, 3) images of a NumPy archive one by one; the whole array may not fit into memory."""
    with zipfile.ZipFile(file) as archive, archive.open("images.npy") as stream:
        shape, _ = _npy_header(file, stream)
        for _ in range(shape[0]):
            image = np.frombuffer(stream.read(math.prod(shape[1:])), np.uint8).reshape(shape[1:])
            yield np.ascontiguousarray(image[..., ::-1]) if bgr else image


# HDF5


def list_hdf5(files: DataFiles, choice: ClassChoice) -> Listing:
    """List one HDF5 file per class, with one group per image that has the data set `image`."""
    archives = {file.stem: file for file in files.files[""] if file.suffix.lower() in HDF5}
    blocks: list[Any] = []
    labels: list[int] = []
    for label, key in enumerate(class_keys(files, choice, archives)):
        with _open_hdf5(archives[key]) as archive:
            groups = choice.spread(sorted(archive, key=numbers_first))
        blocks.append((ALL, len(groups), partial(_hdf5_images, archives[key], groups)))
        labels += [label] * len(groups)
    return list_blocks(files.where, blocks, {"label": labels}, names={"label": choice.classes}, resize="bilinear")


def _open_hdf5(file: Path) -> Any:
    try:
        import h5py
    except ImportError as error:
        raise DataError(
            f"reading the HDF5 file {str(file)!r} needs h5py: pip install 'orthogonal-projection-loss[hdf5]'."
        ) from error
    return h5py.File(file, "r")


def _hdf5_images(file: Path, groups: list[str]) -> Iterator[bytes | Pixels]:
    """Yield the images of some groups, as arrays or encoded; links to other places are not followed."""
    import h5py

    with _open_hdf5(file) as archive:
        for key in groups:
            group: Any = archive[key] if isinstance(archive.get(key, getlink=True), h5py.HardLink) else None
            has_image = isinstance(group, h5py.Group) and isinstance(group.get("image", getlink=True), h5py.HardLink)
            data = group["image"] if has_image else None
            if not isinstance(data, h5py.Dataset) or data.is_virtual or data.external:
                raise ValueError(f"{file.name} contains no image in {key!r}")
            if data.dtype != np.uint8 or data.ndim not in (1, 2, 3) or data.size > MOST_HDF5_BYTES:
                raise ValueError(f"{file.name} has {data.dtype} {data.shape} in {key!r} instead of an image")
            yield data[()].tobytes() if data.ndim == 1 else np.ascontiguousarray(data[()])


# Pickles


def load_pickle(file: Path) -> Any:
    """Load plain values and arrays of numbers or text from a pickle; Python 2 strings are decoded as Latin-1.

    A pickle is a program. Before it is loaded, its instructions are read without being executed: instructions that
    plain data does not need are refused, and so is anything that would take memory or time out of proportion to the
    file. While it is loaded, it gets stand-ins for the few NumPy types that it may name, and nothing else.

    Raises:
        DataError: the pickle contains anything else, or is damaged.
    """
    try:
        with open_regular(file) as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content:
            _check_instructions(content)
            content.seek(0)
            return _resolve(_Unpickler(content, encoding="latin1").load(), {}, 0)
    except _RefusedError as error:
        raise DataError(
            f"the pickle {str(file)!r} was not loaded, because it asks for {error}, which is not plain data and may be "
            "code: download the file from its authors, or use another layout of the data set."
        ) from error
    except Exception as error:  # a damaged pickle can fail in any way
        raise DataError(
            f"the pickle {str(file)!r} cannot be read ({type(error).__name__}: {one_line(error)}): check that the file "
            "is complete, or download it again."
        ) from error


class _RefusedError(Exception):
    """Names the refused content of a pickle."""


_REFUSED = {"DUP", "INST", "OBJ", "NEWOBJ", "NEWOBJ_EX", "EXT1", "EXT2", "EXT4", "PERSID", "BINPERSID"}
_TUPLES, _PUTS = {"TUPLE", "TUPLE1", "TUPLE2", "TUPLE3"}, {"PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"}
_GETS = {"GET", "BINGET", "LONG_BINGET"}


def _check_instructions(content: Any) -> None:
    """Read the instructions of a pickle without executing them; `pickletools` checks that their data is there.

    A memo index beyond the number of instructions would reserve memory for nothing, and hashing tuples that contain
    one tuple again and again takes exponential time: no program that writes data does either.
    """
    memo: dict[int, str] = {}
    shared, before = 0, ""
    for number, (instruction, argument, _) in enumerate(pickletools.genops(content)):
        name = instruction.name
        if number > MOST_INSTRUCTIONS:
            raise ValueError(f"more than {MOST_INSTRUCTIONS:,} instructions")
        if name in _REFUSED:
            raise _RefusedError(f"the instruction {name}")
        if name in _PUTS:
            index = len(memo) if argument is None else int(argument)
            if index > number:
                raise ValueError(f"memo index {index:,} after {number:,} instructions")
            memo[index] = before
            continue
        before = memo.get(int(argument or 0), name) if name in _GETS else name
        shared += name in _GETS and before in _TUPLES
        if shared > MOST_SHARED_TUPLES:
            raise _RefusedError("tuples that contain one another")


class _Builder:
    """Something that a pickle may call; it has no attributes that the pickle could set."""

    __slots__ = ("call",)

    def __init__(self, call: Callable[..., Any]) -> None:
        self.call = call

    def __call__(self, *arguments: Any) -> Any:
        return self.call(*arguments)

    def __setstate__(self, state: Any) -> None:
        raise _RefusedError("attributes of a function")


class _Unpickler(pickle.Unpickler):
    """Knows the names in `_BUILDERS`, and no others."""

    def find_class(self, module: str, name: str) -> Any:
        """Return the stand-in for a name."""
        core = module.removeprefix("numpy.core.").removeprefix("numpy._core.")
        core = core if core != module else module.replace("__builtin__", "builtins")
        if (core, name) not in _BUILDERS:
            raise _RefusedError(f"{module}.{name}"[:200])
        return _Builder(_BUILDERS[core, name])


class _Dtype:
    """Stands in for `numpy.dtype`: numbers, booleans or text, of either byte order."""

    __slots__ = ("dtype",)

    def __init__(self, code: object = None, *_: object) -> None:
        name = code if isinstance(code, str) and len(code) < 16 else "V"
        self.dtype = np.dtype(name)
        if self.dtype.kind not in "biufSU":
            raise _RefusedError(f"an array of {name!r}")

    def __setstate__(self, state: Any) -> None:
        if state[1] in ("<", ">"):
            self.dtype = self.dtype.newbyteorder(state[1])


class _Array:
    """Stands in for `numpy.ndarray`."""

    __slots__ = ("array",)

    def __init__(self, array: np.ndarray[Any, Any] | None = None) -> None:
        self.array = array

    def __setstate__(self, state: Any) -> None:
        *_, shape, dtype, fortran, raw = state
        self.array = _array(raw, dtype, shape, "F" if fortran else "C")


def _array(raw: Any, dtype: Any, shape: Any, order: Any) -> np.ndarray[Any, Any]:
    if not isinstance(dtype, _Dtype) or not isinstance(raw, str | bytes | bytearray):
        raise _RefusedError("an array of Python objects")
    raw = raw.encode("latin1") if isinstance(raw, str) else raw
    if len(shape) > 32 or not all(isinstance(size, int) and size >= 0 for size in shape):
        raise ValueError("an array of an impossible shape")
    if len(raw) != math.prod(shape) * dtype.dtype.itemsize:
        raise ValueError(f"{len(raw)} bytes for an array of {shape}")
    flat = np.frombuffer(raw, dtype.dtype) if raw else np.zeros(0, dtype.dtype)
    return flat.reshape(shape, order="F" if order == "F" else "C")


def _bytes(text: Any = "", _: object = "") -> bytes:
    """Return bytes from the text that Python 3 writes for Python 2; empty for `bytes()`."""
    if not isinstance(text, str):
        raise _RefusedError(f"bytes of a {type(text).__name__}")
    return text.encode("latin1")


_BUILDERS: dict[tuple[str, str], Callable[..., Any]] = {
    ("numpy", "dtype"): _Dtype,
    ("numpy", "ndarray"): _Array,
    ("multiarray", "_reconstruct"): lambda *_: _Array(),
    ("multiarray", "scalar"): lambda dtype, raw: _array(raw, dtype, (1,), "C")[0].item(),
    ("numeric", "_frombuffer"): lambda *arguments: _Array(_array(*arguments)),
    ("_codecs", "encode"): _bytes,
    ("builtins", "bytes"): _bytes,
    ("builtins", "bytearray"): lambda *arguments: bytearray(_bytes(*arguments)),
    ("builtins", "set"): lambda items=(): set(items),
    ("builtins", "frozenset"): lambda items=(): set(items),
}


def _resolve(value: Any, done: dict[int, Any], depth: int) -> Any:
    """Replace the stand-ins in a value by arrays, and decode dictionary keys; shared values stay shared."""
    if depth > DEEPEST_VALUE:
        raise ValueError(f"values nested more than {DEEPEST_VALUE} deep")
    if isinstance(value, _Array):
        if value.array is None:
            raise ValueError("an array without content")
        return value.array
    if isinstance(value, _Dtype | _Builder):
        raise _RefusedError("a type as a value")
    if not isinstance(value, dict | list | tuple):
        return value
    if id(value) not in done:
        if isinstance(value, dict):
            done[id(value)] = {
                key.decode("latin1") if isinstance(key, bytes) else key: _resolve(item, done, depth + 1)
                for key, item in value.items()
            }
        else:
            done[id(value)] = [_resolve(item, done, depth + 1) for item in value]
    return done[id(value)]
