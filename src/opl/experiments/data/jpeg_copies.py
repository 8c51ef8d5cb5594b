"""Small images written once as JPEG files in class folders, so that the reader of large images runs on them."""

import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

import torch
from filelock import FileLock
from torch import Tensor

from ..._ranges import FractionBelowOne, Range
from ...errors import DataError
from ..types import Images
from .cifar import Cifar100
from .domains import Pacs
from .pictures import PictureDataSet, unknown
from .read.cache import cache_folder
from .read.picture_index import PictureIndex, open_index
from .read.picture_source import PictureSource, fingerprint, locate_pictures
from .read.source import find
from .synthetic import Synthetic

QUALITY = 90
SOURCES = {"pacs": "pacs", "cifar100": "cifar100", "cifar20": "cifar100", "synthetic": ""}
"""The data set that each kind is made of."""


@dataclass(frozen=True)
class JpegCopies(PictureDataSet):
    """Images of a small data set as JPEG files, in the cache; with `root`, any folder of pictures in their place.

    All domains of PACS are one data set of 7 classes; `cifar20` has 20 classes of CIFAR-100, the first of each
    superclass. The synthetic pictures differ in size and shape.
    """

    of: Literal["pacs", "cifar100", "cifar20", "synthetic"] = "synthetic"
    side: Annotated[int, Range(8, 4096)] = 64
    """Height and width of the files; those of synthetic pictures vary."""
    val: FractionBelowOne = 0.1
    """Fraction of the training pictures held out for validation."""

    @property
    def name(self) -> str:
        """The name of the copied data set, with the ending `-jpegs`."""
        return f"{self.of}-jpegs"

    def _index(self) -> PictureIndex:
        if self.root:
            return open_index(locate_pictures(unknown(self.name), self.root, hub=False))
        self.check()
        return open_index(PictureSource(self.name, self._folder(), f"{self.of} as JPEGs"))

    def _folder(self) -> Path:
        """Return the folder of the files; the first process writes them, and the others wait."""
        version = str(self.classes)
        if source := SOURCES[self.of]:
            found = find(source)
            version = fingerprint(found.folder, [path for files in found.files.values() for path in files])
        folder = cache_folder() / f"{self.name}-{self.side}-{version}"
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(folder.parent / f"{folder.name}.lock"):
                if not folder.is_dir():
                    self._write(folder)
        except OSError as error:
            raise DataError(
                f"the JPEG files {str(folder)!r} cannot be written ({error.strerror or error}): set OPL_CACHE to a "
                "folder with room that you may write to."
            ) from error
        return folder

    def _write(self, folder: Path) -> None:
        temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
        try:
            names, parts = self._copied()
            for split, part in parts.items():
                _write_part(temporary / split, part, names, self._shape)
            temporary.chmod(0o755)
            temporary.rename(folder)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise

    def _copied(self) -> tuple[tuple[str, ...], dict[str, Images]]:
        """Return the class names, and the images by split; PACS has no split."""
        if self.of == "pacs":
            splits = Pacs(size=self.side).load(0)
            rows = torch.arange(len(splits.train.labels))
            return splits.class_names, {"": Images(splits.train.pixels, splits.train.labels, rows)}
        if self.of == "synthetic":
            classes = self.classes or 10
            data = Synthetic("mini-imagenet", classes=classes, pixels=64, rows=20 * classes, val=0, test=8 * classes)
            splits = data.load(0)
        else:
            splits = Cifar100(val=0).load(0)
        parts = {"train": splits.train, "test": splits.test}
        if self.of == "cifar20":
            chosen = torch.tensor([splits.groups.index(group) for group in range(20)])
            parts = {name: _of_classes(part, chosen) for name, part in parts.items()}
        return splits.class_names, parts

    def _shape(self, number: int) -> tuple[int, int]:
        """Return the width and height of a file."""
        if self.of != "synthetic":
            return self.side, self.side
        return self.side + 16 * (number % 3), self.side + 12 * (number % 4)


def _write_part(folder: Path, part: Images, names: tuple[str, ...], shape_of: Callable[[int], tuple[int, int]]) -> None:
    from PIL import Image

    for number, row in enumerate(part.rows.tolist()):
        place = folder / names[int(part.labels[row])]
        place.mkdir(parents=True, exist_ok=True)
        picture = Image.fromarray(part.pixels[row].permute(1, 2, 0).contiguous().numpy())
        picture.resize(shape_of(number), Image.Resampling.BICUBIC).save(place / f"{number:05d}.jpg", quality=QUALITY)


def _of_classes(part: Images, classes: Tensor) -> Images:
    return replace(part, rows=part.rows[torch.isin(part.labels[part.rows], classes)])
