"""Meta-Dataset: sources with training classes, and test classes from which episodes of varying size are drawn.

Each source is a data set whose classes a specification names. `load` gives the training classes;
`novel_classes` the others.
"""

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Self

import torch

from ..._ranges import CountOrZero, Fraction, Name, Pixels, SeedOrOfRun, check_settings
from ...errors import OptionError
from ..types import Augmentation, DataSet, Images, Splits, empty_part
from .augment import ColorJitter, Flip, PadCrop
from .episode_sampling import Hierarchy
from .few_shot import check_part, hold_out
from .read.catalog import CATALOG, CatalogEntry
from .specification import NAMES, Specification, load_specification
from .split import subset

FOLDER = "meta-dataset"  # in $OPL_DATA, may hold all sources


@dataclass(frozen=True)
class MetaDataSet(DataSet):
    """Base class of the sources: what an evaluation on several of them needs."""

    source: Name = "omniglot"
    """The name of the source."""
    size: Pixels = 84
    """Height and width that images are resized to."""
    padding: CountOrZero = 8
    """Pad by this many pixels and crop at a random position; 0 disables it."""
    flip: Fraction = 0.0
    """Probability of a horizontal flip; SUR has none."""
    jitter: Fraction = 0.2
    """Strength of contrast and saturation jitter; 0 disables it."""
    hue: Fraction = 0.03
    """Largest change of the hue, as a part of the circle; 0 disables it."""

    channels: ClassVar[int] = 3
    mean: ClassVar[tuple[float, ...]] = (0.5, 0.5, 0.5)
    std: ClassVar[tuple[float, ...]] = (0.5, 0.5, 0.5)

    @property
    def augment(self) -> tuple[Augmentation, ...]:
        """Crop, flip and jitter; each can be disabled."""
        jitter = (ColorJitter(0.0, self.jitter, self.jitter, self.hue),) if self.jitter or self.hue else ()
        crop, flip = (PadCrop(self.padding),) if self.padding else (), (Flip(self.flip),) if self.flip else ()
        return (*crop, *flip, *jitter)

    def check(self) -> None:
        """Raise an error for settings that are out of their range."""
        check_settings(self, "data.")

    def of(self, source: str) -> Self:
        """Return another source in the same form."""
        return replace(self, source=source)

    def hierarchy(self, part: str) -> Hierarchy | None:
        """Return which classes of a part are related; None if any may be in one episode."""
        raise NotImplementedError(f"{type(self).__name__} has no hierarchy: define it in the class.")


@dataclass(frozen=True)
class MetaSource(MetaDataSet):
    """A source read from files: one HDF5 file per class, images as '<class>/<image>', or Parquet files.

    `specification.json`, or Meta-Dataset's `dataset_spec.json`, beside them names the classes of each split; some come
    with this package. If images of training classes are held out, the accuracy on them is the test accuracy of a run.

    Example:
        >>> MetaSource(source="omniglot-8", size=32, padding=2).num_classes
        143
    """

    root: str = ""
    """Its folder; if empty, $OPL_DATA is searched, also its folder 'meta-dataset', and then the Hub."""
    specification: str = ""
    """The specification file; if empty, that beside the files, or that of this package."""
    holdout: CountOrZero = 0
    """Images of each training class held out for testing."""
    per_class: CountOrZero = 0
    """Maximum number of training images per class; 0 uses all."""
    most: CountOrZero = 0
    """Images of each class that are decoded at all, evenly spread; 0 decodes all. Quick Draw has 50 million."""
    split_seed: SeedOrOfRun = 0
    """Random seed of what is held out, equal for all runs; -1 uses the run's seed."""

    @property
    def name(self) -> str:
        """The name of the source."""
        return self.source

    @property
    def num_classes(self) -> int:
        """Number of training classes."""
        return len(self._specification().splits["train"])

    def of(self, source: str) -> Self:
        """Return another source in the same form, searched for in $OPL_DATA."""
        return replace(self, source=source, root="", specification="")

    def load(self, seed: int) -> Splits:
        """Load the training classes: `train`, an empty `val`, and the held-out images as `test`."""
        self.check()
        known = self._specification()
        names = known.splits["train"]
        if len(names) < 2:
            raise OptionError(f"{self.source} has {len(names)} training classes: use it for testing only.")
        pixels, labels, where = self._read(known)
        rows = (labels < len(names)).nonzero().flatten()
        seed = seed if self.split_seed == -1 else self.split_seed
        fit, held = hold_out(labels[rows], self.holdout, seed=seed)
        fit = fit[subset(labels[rows][fit], per_class=self.per_class, seed=seed)]
        train = Images(pixels, labels, rows[fit])
        return Splits(train, empty_part(train), replace(train, rows=rows[held]), names, where)

    def novel_classes(self, part: str = "test") -> tuple[Images, tuple[str, ...]]:
        """Return all images of the validation or test classes, numbered from 0, and the class names."""
        check_part(part)
        self.check()
        known = self._specification()
        names = known.splits[part]
        pixels, labels, _ = self._read(known)
        first = known.classes.index(names[0]) if names else 0
        rows = ((labels >= first) & (labels < first + len(names))).nonzero().flatten()
        return Images(pixels, labels - first, rows), names

    def hierarchy(self, part: str) -> Hierarchy | None:
        """Return which classes of a part are related, by the specification."""
        known = self._specification()
        return Hierarchy(known.sets_of(part), known.whole) if known.groups else None

    def _specification(self) -> Specification:
        if self.specification:
            return load_specification(self.source, Path(self.specification).expanduser())
        beside = [folder / name for folder in self._folders() for name in NAMES]
        return load_specification(self.source, next((file for file in beside if file.is_file()), None))

    def _folders(self) -> list[Path]:
        """Return where the source may be: the given folder, or folders in $OPL_DATA, that of Meta-Dataset first."""
        if self.root:
            return [Path(self.root).expanduser()]
        shelf = os.environ.get("OPL_DATA")
        return [Path(shelf).expanduser() / name / self.source for name in (FOLDER, "")] if shelf else []

    def _root(self) -> str:
        """Return the given folder, or that of the source in the folder of Meta-Dataset; empty if neither exists."""
        together = [str(folder) for folder in self._folders()[:1] if self.root or folder.is_dir()]
        return together[0] if together else ""

    def _entry(self, known: Specification) -> CatalogEntry:
        data = known.data or self.source
        license = "see google-research/meta-dataset for where to get it"
        entry = CATALOG.get(data) or CatalogEntry(data, "", {}, 0, "RGB", license, other_columns=known.columns)
        return replace(
            entry, images=dict.fromkeys(known.files, 0), mode="RGB", size=self.size, classes={}, made_of="", idx=False
        )

    def _read(self, known: Specification) -> tuple[torch.Tensor, torch.Tensor, str]:
        """Return all pixels of the specification's classes, their labels, and where they come from."""
        from .read import find, serve
        from .read.listing import ALL, ClassChoice

        files = find.find_entry(self._entry(known), self._root())
        choice = ClassChoice(known.classes, known.aliases, known.columns, known.invert, self.most)
        decoded = serve.load_files(replace(files, layout=serve.CLASSES, choice=choice))
        part = decoded.parts[ALL]
        return part.pixels, part.labels[decoded.label], decoded.source
