"""The two ways to serve the images of a listing: decoded once, or encoded and decoded when a batch needs them.

Small images are decoded once into arrays in the cache, which later runs map into memory: for each part the pixels
(N, C, H, W) as uint8, and each label column (N,) as int64. Large images stay encoded: image files are read in place,
while images in Parquet files, where each row is compressed together with a hundred others, are copied to the cache.
"""

import os
import signal
import warnings
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from ....errors import DataError, OplWarning, OptionError
from ...allocator import return_large_blocks
from ...terminal import make_console
from ...types import Images, Request
from ..augment import central_box, draw_crops, random_box
from .array_files import HDF5, list_hdf5, list_idx
from .cache import Contents, content_sums, hash_of, open_cached
from .catalog import CatalogEntry
from .few_shot_files import list_few_shot
from .find import find, find_tables
from .listing import (
    DataFiles,
    Listing,
    Numbers,
    check_names,
    class_folders,
    class_ids,
    is_image,
    list_chosen_folders,
    list_domain_folders,
    list_files,
    one_line,
    walk_images,
)
from .parquet import list_chosen_table, list_domain_table, list_tables

FORMAT = 3  # increase it when the content of a cache folder changes; older folders are then ignored
DOMAINS, CLASSES = "domains", "classes"  # layouts chosen by the data set, for files of any format


def list_images(files: DataFiles) -> Listing:
    """List the images of a data set, whatever its layout."""
    with files.reading():
        return LISTINGS.get(files.layout, list_few_shot)(files)


def _list_domains(files: DataFiles) -> Listing:
    in_folders = not files.parquet and any(map(is_image, files.files[""]))
    return list_domain_folders(files) if in_folders else list_domain_table(files)


def _list_classes(files: DataFiles) -> Listing:
    assert files.choice is not None
    if files.parquet:
        return list_chosen_table(files, files.choice)
    in_archives = any(file.suffix.lower() in HDF5 for file in files.files[""])
    return (list_hdf5 if in_archives else list_chosen_folders)(files, files.choice)


LISTINGS: dict[str, Callable[[DataFiles], Listing]] = {
    "": list_tables,
    "idx": list_idx,
    DOMAINS: _list_domains,
    CLASSES: _list_classes,
}
"""The listing of each layout; all others are few-shot layouts."""


# Decoded once


@dataclass(frozen=True)
class DecodedPart:
    """A decoded part: (N, C, H, W) uint8 pixels, memory-mapped, (N,) int64 labels, and further labels by column."""

    pixels: Tensor
    labels: Tensor
    others: Mapping[str, Tensor]

    def classes(self, first: int, last: int) -> Images:
        """Return the images of the classes from `first` up to but excluding `last`, numbered from 0."""
        rows = ((self.labels >= first) & (self.labels < last)).nonzero().flatten()
        return Images(self.pixels, self.labels - first, rows)


@dataclass(frozen=True)
class DecodedData:
    """A decoded data set; `names` are the value names of the further label columns."""

    parts: Mapping[str, DecodedPart]
    class_names: tuple[str, ...]
    names: Mapping[str, tuple[str, ...]]
    source: str


def load(name: str, root: str = "", parts: Collection[str] = (), *, bgr: bool = False, size: int = 0) -> DecodedData:
    """Load the data set `name` from the cache, decoding it into the cache if needed.

    Args:
        name: a key of `CATALOG`.
        root: the data set's folder; if empty, it is searched for.
        parts: the parts to open and check; empty opens all.
        bgr: whether its files hold BGR arrays, which are then converted to RGB.
        size: height and width to resize encoded images to; 0 for the size of the data set.
    """
    files = find(name, root)
    if bgr and files.layout != "npz":
        raise OptionError(
            f"bgr is for arrays whose order of colors is unknown ('..._images.npz'), but {name} in "
            f"{str(files.folder)!r} has encoded images: remove bgr."
        )
    return load_files(replace(files, bgr=bgr, known=replace(files.known, size=size or files.known.size)), parts)


def load_files(files: DataFiles, parts: Collection[str] = ()) -> DecodedData:
    """Load a data set whose files are known."""
    known, choice = files.known, files.choice
    facts = [FORMAT, known.mode, known.size, files.layout, files.bgr, known.other_columns]
    facts += [choice.classes, choice.columns, choice.invert, choice.most] if choice else []
    key = hash_of(*facts, sorted(files.files), content_sums(files.folder, files.all_files))
    folder, contents = open_cached(
        known.name, key, partial(_decode, files), lambda file: not parts or file.partition(".")[0] in parts
    )
    decoded = {}
    for part in [part for part in contents["parts"] if not parts or part in parts]:
        others = {column: open_array(folder / f"{part}.{column}.npy", mapped=False) for column in contents["labels"]}
        labels = others.pop(contents["labels"][0])
        decoded[part] = DecodedPart(open_array(folder / f"{part}.pixels.npy"), labels, others)
        size, complete = len(decoded[part].pixels), known.images.get(part, 0)
        if complete and size != complete and not known.classes:
            warnings.warn(
                OplWarning(
                    f"{files.called} has {size:,} images in its split {part!r}, where the complete data set has "
                    f"{complete:,}: results are not comparable with published ones."
                ),
                stacklevel=2,
            )
    names = {column: tuple(names) for column, names in contents["names"].items()}
    return DecodedData(decoded, names.pop(contents["labels"][0]), names, files.where)


def open_array(file: Path, *, mapped: bool = True) -> Tensor:
    """Open an array of the cache as a tensor; writes to it do not reach the file."""
    return torch.from_numpy(np.load(file, mmap_mode="c" if mapped else None, allow_pickle=False))


def _decode(files: DataFiles, folder: Path) -> Contents:
    """Decode a data set into arrays in a folder."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    listing = list_images(files)
    names = {label: list(listing.names.get(label, ())) for label in listing.labels}
    parts = tuple(dict.fromkeys([*listing.parts] if files.choice else [*files.known.images, *listing.parts]))
    shapes: dict[tuple[int, ...], str] = {}
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=make_console(stderr=True), transient=True) as progress:
        task = progress.add_task(f"decoding {files.known.name} (once)", total=len(listing))
        for part in parts:
            chosen = listing.take(listing.rows_of(part))
            with files.reading():
                codes = _label_codes(files, chosen, part, names)
            # Written rather than mapped: on a full disk, writing raises an error, and a mapped page kills the process.
            with (folder / f"{part}.pixels.npy").open("wb") as stream:
                for pixels in _read_pixels(files, chosen, part, shapes):
                    if not stream.tell():
                        header = {"descr": "|u1", "fortran_order": False, "shape": (len(chosen), *pixels.shape[1:])}
                        np.lib.format.write_array_header_1_0(stream, header)
                    stream.write(pixels.tobytes())
                    progress.advance(task, len(pixels))
            for label in codes:
                np.save(folder / f"{part}.{label}.npy", codes[label])
    known = files.known
    classes = names[listing.label] or known.names or [str(number) for number in range(known.num_classes)]
    names[listing.label] = [known.respell.get(name, name) for name in classes]
    return {"parts": parts, "labels": list(listing.labels), "names": names}


def _read_pixels(files: DataFiles, listing: Listing, part: str, shapes: dict[tuple[int, ...], str]) -> Iterator[Any]:
    """Yield the decoded images of a part, batch by batch; all shapes are added to `shapes`, and must be one."""
    from PIL import Image

    from .decode import Decoding, decode_all

    size, count = files.known.size, 0
    resample = Image.Resampling[listing.resize.upper() or "BILINEAR"]
    invert = files.choice is not None and files.choice.invert
    decoding = Decoding(files.known.mode, size if listing.resize else 0, resample, invert)
    with files.reading():
        for pixels in decode_all(listing.read(range(len(listing))), decoding):
            shapes.setdefault(pixels.shape[1:], part)
            if size and pixels.shape[2:] != (size, size):
                raise ValueError(f"images of {pixels.shape[2]} x {pixels.shape[3]} instead of {size} x {size}")
            if len(shapes) > 1:
                sizes = " and ".join(f"{height} x {width} in {name!r}" for (_, height, width), name in shapes.items())
                raise ValueError(f"images of {sizes}")
            count += len(pixels)
            yield pixels
        if count != len(listing):
            raise ValueError(f"{len(listing)} labels and {count} images in {part!r}")


def _label_codes(files: DataFiles, listing: Listing, part: str, names: dict[str, list[str]]) -> dict[str, Numbers]:
    """Return the labels of a part as integers, by column; names that are numbered here are added to `names`."""
    codes = {}
    for label, values in listing.labels.items():
        check_names(label, names[label])
        codes[label], class_names = class_ids(values, names[label])
        names[label] = list(class_names)
        limit = len(class_names) or (files.known.num_classes if label in files.known.label_columns else 0)
        low, high = (codes[label].min(), codes[label].max()) if len(codes[label]) else (0, 0)
        if limit and not 0 <= low <= high < limit:
            raise DataError(
                f"{files.called} has labels from {low} to {high} in its column {label!r}, which must be from 0 to "
                f"{limit - 1}: check that it is the labeled data set."
            )
    classes = codes[listing.label]
    if not len(classes):
        raise ValueError(f"no images in the split {part!r}")
    if part == "train" and (classes == classes[0]).all():
        raise ValueError(f"all {len(classes)} training images are of class {classes[0]}")
    return codes


# Encoded


PACKED = ".bin"  # suffix of the files of entries
SAMPLE, SAMPLE_SIZE = 1000, 128  # images from which mean and std are computed, and the size that they are reduced to
BYTES_AT_ONCE = 32 << 20  # of floats, when images are read without training
BLOCK = 8 << 20  # freed blocks of at least this many bytes are returned to the system


@dataclass(frozen=True)
class Crops:
    """How encoded images become images of one size."""

    size: int
    """Height and width of the images."""
    mode: str
    """Pillow's `L` or `RGB`."""
    least: float
    """The smallest fraction of an image's area that a random crop takes."""
    center: float
    """The side of the central crop, as a fraction of the shorter side."""
    draft: bool = True
    """Decode JPEGs at a reduced size where the crop allows it."""
    workers: int = 0
    """Processes that decode; 0 decodes in the training process."""
    prefetch: int = 2
    """Batches that each worker prepares in advance, which bounds the memory."""


SQUARES = Crops(SAMPLE_SIZE, "RGB", least=1.0, center=1.0)  # for mean and std


@dataclass(frozen=True)
class EncodedFiles(Dataset[Tensor | str]):
    """The encoded images of a part, read one by one, and decoded as a data loader needs them."""

    packed: Path
    offsets: Any
    """(N + 1,) int64: entry i is `packed[offsets[i]:offsets[i + 1]]`."""
    folder: Path | None
    """The folder of the images, if the entries are file names."""
    crops: Crops

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def read(self, row: int) -> bytes | Path:
        """Return an encoded image, or its file."""
        start, end = int(self.offsets[row]), int(self.offsets[row + 1])
        with open(self.packed, "rb", buffering=0) as file:
            entry = os.pread(file.fileno(), end - start, start)
        return entry if self.folder is None else self.folder / os.fsdecode(entry)

    def undecodable(self, row: int, error: Exception) -> str:
        """Return the message for an image that cannot be decoded."""
        source = self.read(row) if self.folder else None
        name = repr(str(source)) if source else f"image {row} of {self.packed.name.removesuffix(PACKED)!r}"
        return f"{name} cannot be decoded ({type(error).__name__}: {one_line(error)}): replace or remove it."

    def __getitem__(self, job: tuple[Any, Any]) -> Tensor | str:
        """Decode rows, with the random numbers of their crops or None, to (n, C, size, size) pixels or to a message."""
        from .decode import decode_crop

        (rows, draws), crops = job, self.crops
        pixels = np.empty((len(rows), crops.size, crops.size, 1 if crops.mode == "L" else 3), dtype=np.uint8)
        for index, row in enumerate(rows):
            if draws is None:
                box_of = partial(central_box, fraction=crops.center)
            else:
                box_of = partial(random_box, draws=draws[index], least=crops.least)
            try:
                pixels[index] = decode_crop(self.read(row), box_of, crops.size, crops.mode, crops.draft)
            except Exception as error:  # Pillow raises many kinds of errors for damaged images
                return self.undecodable(row, error)
        return torch.from_numpy(pixels).permute(0, 3, 1, 2)  # channels last in memory, as the network expects them


@dataclass(frozen=True)
class EncodedData:
    """A data set whose images are encoded: an index in the cache, and statistics from a sample."""

    folder: Path
    images: Path | None
    """The folder of the images, if each is a file."""
    where: str
    class_names: tuple[str, ...] = ()
    channels: int = 3
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    parts: tuple[str, ...] = ()

    def labels(self, part: str) -> Tensor:
        """Return the labels of a part, (N,) int64."""
        return torch.from_numpy(np.load(self.folder / f"{part}.labels.npy"))

    def files(self, part: str, crops: Crops = SQUARES) -> EncodedFiles:
        """Return the images of a part."""
        offsets = np.load(self.folder / f"{part}.offsets.npy", mmap_mode="r")
        return EncodedFiles(self.folder / f"{part}{PACKED}", offsets, self.images, crops)


def load_encoded(known: CatalogEntry, root: str = "") -> EncodedData:
    """Open the images of a data set in `root`, in `$OPL_DATA/<name>` or, if it has an id there, on the Hub.

    They are in class folders or Parquet files. The parts of `known` must exist; if it names none, all parts that exist
    are used.
    """
    base = os.environ.get("OPL_DATA", "")
    folder = Path(root or f"{base}/{known.name}").expanduser()
    if (root or base) and _has_classes(folder):
        return load_class_folders(known.name, folder)
    if not known.hub and not ((root or base) and folder.is_dir()):
        problem = f"there is no folder {str(folder)!r}" if root or base else f"{known.name} needs a folder of images"
        raise DataError(
            f"{problem}: pass the folder with --data.root, or the id of a data set on the Hub with --data.hub."
        )
    files = find_tables(known, root)
    key = hash_of(FORMAT, known.image_columns, known.label_columns, content_sums(files.folder, files.all_files))
    return _open_encoded(known.name, key, None, files.where, partial(_list_labeled_tables, files))


def evenly_spaced(count: int, most: int) -> list[int]:
    """Return at most `most` of `count` rows, from the first to the last."""
    rows: list[int] = np.unique(np.linspace(0, count - 1, most).astype(int)).tolist()
    return rows


def load_class_folders(name: str, folder: Path, where: str = "") -> EncodedData:
    """Open images in class folders, which are read in place.

    The index holds only their names, so its key is made of the class folders, which change when an image is added or
    removed: replaced images are never stale.
    """
    _, parts = class_folders(folder)
    facts = []
    for part, path in ((name, path) for name in sorted(parts) for path in parts[name]):
        stat = path.stat()
        facts.append((part, path.relative_to(folder).as_posix(), stat.st_mtime_ns, stat.st_ctime_ns))
    where = where or str(folder)
    return _open_encoded(name, hash_of(FORMAT, name, facts), folder, where, partial(_list_class_folders, parts, where))


def _has_classes(folder: Path) -> bool:
    """Return whether a folder has class folders with images to train on."""
    if not folder.is_dir():
        return False
    _, parts = class_folders(folder)
    return any(next(walk_images(path, links=False), None) for path in parts.get("train", parts.get("", ())))


def _list_class_folders(parts: Mapping[str, Sequence[Path]], where: str) -> Listing:
    parts = {part or "train": classes for part, classes in parts.items()}
    names = tuple(path.name for path in parts["train"])
    for part, classes in parts.items():
        if unknown := [path.name for path in classes if path.name not in names]:
            raise DataError(
                f"{where!r} has a class {unknown[0]!r} in the split {part!r} that is not in 'train': use the same "
                "classes in all splits."
            )
    rows = [
        (part, names.index(path.name), file)
        for part, classes in parts.items()
        for path in classes
        for file in walk_images(path, links=False)
    ]
    return list_files(where, rows, names={"label": names})


def _list_labeled_tables(files: DataFiles) -> Listing:
    """List Parquet files with numbers as labels; parts without labels (-1), such as some test sets, are left out."""
    listing = list_images(files)
    labels, names = listing.labels[listing.label], listing.names.get(listing.label, ())
    unlabeled = {
        part for part, label in zip(listing.parts, labels, strict=True) if isinstance(label, int) and label < 0
    }
    listing = listing.take([row for row, part in enumerate(listing.parts) if part not in unlabeled])
    with files.reading():
        train = [listing.labels[listing.label][row] for row in listing.rows_of("train")]
        names = names or class_ids(train)[1] or tuple(str(number) for number in range(max(train, default=-1) + 1))
        ids, _ = class_ids(listing.labels[listing.label], names)
    return replace(listing, labels={"label": ids.tolist()}, names={"label": names})


def _open_encoded(
    name: str, key: str, images: Path | None, where: str, list_rows: Callable[[], Listing]
) -> EncodedData:
    folder, contents = open_cached(name, key, lambda folder: _write_index(folder, images, list_rows()))
    facts = {name: tuple(contents[name]) for name in ("class_names", "mean", "std", "parts")}
    return EncodedData(folder, images, where, channels=contents["channels"], **facts)


def _write_index(folder: Path, images: Path | None, listing: Listing) -> Contents:
    """Write labels and entries of each part; the entries are file names, or the encoded images themselves."""
    names, parts = listing.names["label"], tuple(dict.fromkeys(listing.parts))
    labels = listing.labels["label"]
    if len(names) < 2:
        raise DataError(f"{listing.where!r} has {len(names)} classes: use a folder with at least two.")
    if empty := set(range(len(names))) - {labels[row] for row in listing.rows_of("train")}:
        raise DataError(
            f"{listing.where!r} has no training images of the class {names[min(empty)]!r}: add some, or remove it."
        )
    for part in parts:
        rows = listing.rows_of(part)
        np.save(folder / f"{part}.labels.npy", np.asarray([labels[row] for row in rows], dtype=np.int64))
        lengths = []
        with (folder / f"{part}{PACKED}").open("wb") as file:
            for source in listing.read(rows):
                entry = os.fsencode(source.relative_to(images)) if isinstance(source, Path) and images else source
                if not isinstance(entry, bytes):
                    raise DataError(f"{listing.where!r} has a row that cannot be read ({entry}): check its files.")
                lengths.append(file.write(entry))
        np.save(folder / f"{part}.offsets.npy", np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64))
    unchecked = [] if images else [f"{part}{PACKED}" for part in parts]  # only their size: they may be huge
    statistics = image_statistics(EncodedData(folder, images, "").files("train"))
    return {"class_names": names, "parts": parts, "unchecked": unchecked, **statistics}


def image_statistics(files: EncodedFiles) -> dict[str, Any]:
    """Return `channels` (1 if all images are gray, otherwise 3), and `mean` and `std` per channel, of pixels in [0, 1].

    They are computed from up to 1,000 evenly spaced images, reduced to 128 x 128 pixels.
    """
    from .decode import decode_square

    rows = evenly_spaced(len(files), SAMPLE)
    gray, sums = True, np.zeros((2, 3))
    for row in rows:
        try:
            square = decode_square(files.read(row), SAMPLE_SIZE)
        except Exception as error:  # Pillow raises many kinds of errors for damaged images
            raise DataError(files.undecodable(row, error)) from error
        gray = gray and square.gray
        values = square.pixels.reshape(-1, 3) / 255
        sums += np.stack([values.mean(0), np.square(values).mean(0)])
    mean, squares = (sums / len(rows))[:, : 1 if gray else 3]
    std = np.sqrt(np.maximum(squares - np.square(mean), 1e-6))
    rounded = {name: [round(float(value), 5) for value in values] for name, values in (("mean", mean), ("std", std))}
    return {"channels": len(mean), **rounded}


@dataclass(frozen=True)
class EncodedImages(Images):
    """A part of a data set whose images are encoded; `pixels` has their shape (0, C, size, size), and no image."""

    files: EncodedFiles = field(kw_only=True)

    @classmethod
    def of(cls, files: EncodedFiles, labels: Tensor, rows: Tensor) -> "EncodedImages":
        """Return the images in some `rows` of the files."""
        shape = (0, 1 if files.crops.mode == "L" else 3, files.crops.size, files.crops.size)
        return cls(torch.zeros(shape, dtype=torch.uint8), labels, rows, files=files)

    @property
    def most_at_once(self) -> int:
        """As many images as take 32 MiB of floats, but at least one."""
        return max(1, BYTES_AT_ONCE // (4 * self.pixels.shape[1] * self.pixels.shape[2] ** 2))

    def take(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Decode the central crops of some images in this process."""
        chosen = self.rows[rows]
        return _pixels(self.files[chosen.numpy(), None]), self.labels[chosen]

    def serve(self, requests: Iterable[Request]) -> Iterator[tuple[Tensor, Tensor]]:
        """Decode the images of each request, in order, while workers decode later requests."""
        return_large_blocks(BLOCK)
        crops, labels = self.files.crops, deque[Tensor]()

        def jobs() -> Iterator[tuple[Any, Any]]:
            for request in requests:
                chosen = self.rows[request.rows]
                labels.append(self.labels[chosen])
                yield chosen.numpy(), _draws(request)

        settings: dict[str, Any] = {"num_workers": crops.workers, "generator": torch.Generator()}
        if crops.workers:
            settings |= {"prefetch_factor": crops.prefetch, "worker_init_fn": _ignore_signals}
        try:
            for pixels in DataLoader(self.files, batch_size=None, sampler=jobs(), **settings):
                yield _pixels(pixels), labels.popleft()
        except RuntimeError as error:
            if "DataLoader worker" not in str(error):
                raise
            raise DataError(
                "a worker that decodes images has died, perhaps for lack of memory: lower --data.workers, or add "
                "shared memory (docker run --shm-size)."
            ) from error


def _ignore_signals(worker: int) -> None:
    """Make a worker ignore signals to the whole process group: the run needs the worker for its last step."""
    for signum in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signum, signal.SIG_IGN)


def _draws(request: Request) -> Any:
    """Return the random numbers of the crops of a request; they are drawn for the whole batch, on every process."""
    if request.seed is None:
        return None
    return draw_crops(request.total, torch.Generator().manual_seed(request.seed))[request.positions].tolist()


def _pixels(pixels: Tensor | str) -> Tensor:
    if isinstance(pixels, str):
        raise DataError(pixels)
    return pixels
